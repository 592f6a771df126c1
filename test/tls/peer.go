// SPDX-License-Identifier: ISC

// A client that uses TLS of Go: see test_peers.py. Arguments: the port, the seed, rounds.
package main

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"strconv"
)

func check(err error) {
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
}

func message(kind string, body []byte) []byte {
	size := make([]byte, 4)
	binary.BigEndian.PutUint32(size, uint32(len(body)+4))
	return append([]byte(kind), append(size, body...)...)
}

// Reads up to ReadyForQuery, and returns the row's first value.
func answer(conn io.Reader) []byte {
	var row []byte
	for {
		head := make([]byte, 5)
		_, err := io.ReadFull(conn, head)
		check(err)
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		_, err = io.ReadFull(conn, body)
		check(err)
		switch head[0] {
		case 'D':
			row = body[6:]
		case 'E':
			check(fmt.Errorf("%q", body))
		case 'Z':
			return row
		}
	}
}

func main() {
	seed, _ := strconv.Atoi(os.Args[2])
	rounds, _ := strconv.Atoi(os.Args[3])
	chance := rand.New(rand.NewSource(int64(seed)))
	plain, err := net.Dial("tcp", "127.0.0.1:"+os.Args[1])
	check(err)
	_, err = plain.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47})
	check(err)
	yes := make([]byte, 1)
	_, err = io.ReadFull(plain, yes)
	check(err)
	conn := tls.Client(plain, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13,
		DynamicRecordSizingDisabled: seed%2 == 0})
	_, err = conn.Write(message("", []byte("\x00\x03\x00\x00user\x00alice\x00database\x00app\x00\x00")))
	check(err)
	answer(conn)
	for i := 0; i < rounds; i++ {
		size := []int{0, 1, 16383, 16384, 16385, chance.Intn(100000)}[chance.Intn(6)]
		text := bytes.Repeat([]byte{byte('a' + chance.Intn(26))}, size)
		query := message("Q", []byte("SELECT '"+string(text)+"'\x00"))
		for len(query) > 0 {
			count := 1 + chance.Intn(len(query))
			_, err = conn.Write(query[:count])
			check(err)
			query = query[count:]
		}
		if got := answer(conn); !bytes.Equal(got, text) {
			check(fmt.Errorf("round %d: another text", i))
		}
	}
	check(conn.CloseWrite())
	rest, err := io.ReadAll(conn)
	if err != nil || len(rest) > 0 {
		check(fmt.Errorf("after the end: %q %v", rest, err))
	}
	fmt.Println("ok")
}
