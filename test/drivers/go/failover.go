// SPDX-License-Identifier: ISC

// What the Go programs that write while hosts fail share: see python/failover.py. It is copied
// beside each of them.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	clients = 2 // of each kind
	pause   = 5 * time.Millisecond
	insert  = "INSERT INTO written VALUES ($1)"
)

type writer struct {
	kind  string
	name  string
	stage string // what it is about to do: connect, begin, work or commit
	rows  []string
	count int
}

func (w *writer) newRow() string {
	w.count++
	w.rows = append(w.rows, fmt.Sprintf("%s/%d", w.name, w.count))
	return w.rows[len(w.rows)-1]
}

// tell prints what has become of the rows; sqlstate is empty if the error has none.
func (w *writer) tell(sqlstate string, err error) {
	rows := strings.Join(w.rows, " ")
	if err == nil {
		fmt.Printf("ok\t%s\t%s\n", w.kind, rows)
		return
	}
	words := strings.NewReplacer("\n", " ", "\t", " ").Replace(err.Error())
	fmt.Printf("failed\t%s\t%s\t%s\t%s\t%s\n", w.kind, w.stage, sqlstate, words, rows)
}

// failover has some writers of each kind. Each has one function of its own from start, which makes
// one step, on one connection as long as that lives, and returns SQLSTATE and the error.
func failover(kinds []string, start func(w *writer) func() (string, error)) {
	isOver := make(chan struct{})
	var group sync.WaitGroup
	for i := 0; i < len(kinds)*clients; i++ {
		kind := kinds[i/clients]
		w := &writer{kind: kind,
			name: fmt.Sprintf("%s/%s/%d", os.Getenv("PGAPPNAME"), kind, i%clients)}
		step := start(w)
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				select {
				case <-isOver:
					return
				case <-time.After(pause):
				}
				w.rows, w.stage = nil, "connect"
				w.tell(step())
			}
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	close(isOver)
	group.Wait()
}
