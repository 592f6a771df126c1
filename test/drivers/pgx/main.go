// SPDX-License-Identifier: ISC

// pgx v5. The argument is the default query execution mode.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	connections = 6
	rounds      = 3
	texts       = 8 // more than a server may know when the limit is small
	lines       = 200
)

var modes = map[string]pgx.QueryExecMode{
	"cache_statement": pgx.QueryExecModeCacheStatement,
	"cache_describe":  pgx.QueryExecModeCacheDescribe,
	"describe_exec":   pgx.QueryExecModeDescribeExec,
	"exec":            pgx.QueryExecModeExec,
	"simple_protocol": pgx.QueryExecModeSimpleProtocol,
}

type worker struct {
	*pgx.Conn
	ctx     context.Context
	who     string
	notices []string
}

type scenario struct {
	name string
	run  func(w *worker) error
}

var payloads = []string{"0", "1", "2", "own"}

var scenarios = []scenario{
	{"simple", simple},
	{"prepared", prepared},
	{"rollback", rollback},
	{"recovery", recovery},
	{"copy", copyBoth},
	{"batch", batch},
	{"cancel", cancel},
	{"notices", notices},
}

// number is the one value of a query, which must be so.
func (w *worker) number(wanted int, sql string, args ...any) error {
	var got int
	if err := w.QueryRow(w.ctx, sql, args...).Scan(&got); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	if got != wanted {
		return fmt.Errorf("%s: %d, not %d", sql, got, wanted)
	}
	return nil
}

func (w *worker) count(wanted int) error {
	return w.number(wanted, "SELECT count(*) FROM driver_rows WHERE who = $1", w.who)
}

func (w *worker) divide(wanted, by int) error {
	return w.number(wanted, "SELECT 10 / $1::int", by)
}

// mustFail turns the right error into none.
func mustFail(sqlstate string, err error) error {
	var from *pgconn.PgError
	if errors.As(err, &from) && from.Code == sqlstate {
		return nil
	}
	return fmt.Errorf("not error %s: %w", sqlstate, errors.Join(err, errors.New("(above)")))
}

func (w *worker) clear() error {
	_, err := w.Exec(w.ctx, "DELETE FROM driver_rows WHERE who = $1", w.who)
	return err
}

func (w *worker) insert(number int) error {
	_, err := w.Exec(w.ctx, "INSERT INTO driver_rows VALUES ($1, $2)", w.who, number)
	return err
}

func simple(w *worker) error {
	results, err := w.PgConn().Exec(w.ctx, "SELECT 1; SELECT 2").ReadAll()
	if err == nil && (len(results) != 2 || string(results[1].Rows[0][0]) != "2") {
		err = fmt.Errorf("%d results", len(results))
	}
	return err
}

func prepared(w *worker) error {
	for i := 0; i < 2; i++ {
		for text := 0; text < texts; text++ {
			sql := fmt.Sprintf("SELECT $1::int + %d", text)
			for again := 0; again < 2; again++ {
				if err := w.number(text+again, sql, again); err != nil {
					return err
				}
			}
		}
	}
	if _, err := w.Prepare(w.ctx, "mine", "SELECT $1::int * 3"); err != nil {
		return err
	}
	return errors.Join(w.number(6, "mine", 2), w.number(9, "mine", 3),
		w.Deallocate(w.ctx, "mine"))
}

func rollback(w *worker) error {
	tx, err := w.Begin(w.ctx)
	if err != nil {
		return err
	}
	if err = errors.Join(w.insert(1), w.count(1), tx.Rollback(w.ctx), w.count(0)); err != nil {
		return err
	}
	if tx, err = w.Begin(w.ctx); err != nil {
		return err
	}
	return errors.Join(w.insert(2), tx.Commit(w.ctx), w.count(1), w.clear())
}

func recovery(w *worker) error {
	err := errors.Join(mustFail("22012", w.divide(0, 0)),
		mustFail("42P01", w.number(1, "SELECT $1::int FROM nowhere", 1)), w.divide(2, 5))
	if err != nil {
		return err
	}
	tx, err := w.Begin(w.ctx)
	if err != nil {
		return err
	}
	inner, err := tx.Begin(w.ctx)
	if err != nil {
		return err
	}
	return errors.Join(mustFail("22012", w.divide(0, 0)), mustFail("25P02", w.divide(10, 1)),
		inner.Rollback(w.ctx), w.divide(5, 2), tx.Rollback(w.ctx), w.divide(5, 2))
}

func copyBoth(w *worker) error {
	var wanted strings.Builder
	rows := [][]any{}
	for i := 0; i < lines; i++ {
		rows = append(rows, []any{w.who, i})
		fmt.Fprintln(&wanted, i)
	}
	_, err := w.CopyFrom(w.ctx, pgx.Identifier{"driver_rows"}, []string{"who", "number"},
		pgx.CopyFromRows(rows))
	if err != nil {
		return err
	}
	var out bytes.Buffer
	_, err = w.PgConn().CopyTo(w.ctx, &out, "COPY (SELECT number FROM driver_rows WHERE who = '"+
		w.who+"' ORDER BY 1) TO STDOUT")
	if err == nil && out.String() != wanted.String() {
		err = fmt.Errorf("COPY brought %d bytes", out.Len())
	}
	return errors.Join(err, w.clear())
}

func batch(w *worker) error {
	good, bad := &pgx.Batch{}, &pgx.Batch{}
	for i := 0; i < texts; i++ {
		good.Queue("INSERT INTO driver_rows VALUES ($1, $2)", w.who, i)
		good.Queue(fmt.Sprintf("SELECT $1::int - %d", i), i).QueryRow(func(row pgx.Row) error {
			var got int
			return errors.Join(row.Scan(&got), map[bool]error{true: errors.New("not 0")}[got != 0])
		})
		bad.Queue(fmt.Sprintf("SELECT 10 / ($1::int - %d)", i), texts/2)
	}
	return errors.Join(w.SendBatch(w.ctx, good).Close(), w.count(texts), w.clear(),
		mustFail("22012", w.SendBatch(w.ctx, bad).Close()), w.divide(2, 5))
}

// A request that comes before its statement has no effect, so it is sent until the end.
func cancel(w *worker) error {
	over := make(chan error, 1)
	go func() {
		_, err := w.Exec(w.ctx, "SELECT pg_sleep($1)", 60)
		over <- err
	}()
	for {
		select {
		case err := <-over:
			return errors.Join(mustFail("57014", err), w.divide(2, 5))
		case <-time.After(100 * time.Millisecond):
			if err := w.PgConn().CancelRequest(w.ctx); err != nil {
				return errors.Join(err, mustFail("57014", <-over))
			}
		}
	}
}

func notices(w *worker) error {
	w.notices = nil
	_, err := w.Exec(w.ctx, "DO $$ BEGIN RAISE NOTICE '"+w.who+"'; END $$")
	if err == nil && (len(w.notices) != 1 || w.notices[0] != w.who) {
		err = fmt.Errorf("notices: %q", w.notices)
	}
	return err
}

// execute returns the first value of the result, "" if there is none.
func (w *worker) execute(sql string) (string, error) {
	rows, err := w.Query(w.ctx, sql)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	got := ""
	for rows.Next() {
		if values, err := rows.Values(); err == nil && len(values) > 0 {
			got = fmt.Sprint(values[0])
		}
	}
	return got, rows.Err()
}

// follow does one line of session.txt: scenario, statement, and a result if there is one to check.
func (w *worker) follow(step []string) error {
	number := w.who[len(w.who)-1:]
	sql := strings.ReplaceAll(step[1], "{n}", number)
	got, err := w.execute(sql)
	if len(step) > 2 && step[2] == "*" {
		return nil
	}
	if err == nil && len(step) > 2 && got != strings.ReplaceAll(step[2], "{n}", number) {
		return fmt.Errorf("%s: %q", sql, got)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// sessionScenarios are those of session.txt, and listen.
func sessionScenarios() (list []scenario) {
	text, err := os.ReadFile("session.txt")
	if err != nil {
		panic(err)
	}
	steps := map[string][][]string{}
	for _, line := range strings.Split(string(text), "\n") {
		step := strings.Split(line, "\t")
		if len(step) < 2 || line[0] == '#' {
			continue
		}
		name := step[0]
		if steps[name] == nil {
			list = append(list, scenario{name, func(w *worker) error {
				for _, step := range steps[name] {
					if err := w.follow(step); err != nil {
						return err
					}
				}
				return nil
			}})
		}
		steps[name] = append(steps[name], step)
	}
	return append(list, scenario{"listen", listen})
}

func notify(channel string) error {
	other := &worker{ctx: context.Background()}
	if err := other.connect(); err != nil {
		return err
	}
	defer other.Close(other.ctx)
	for _, payload := range payloads[:len(payloads)-1] {
		if _, err := other.Exec(other.ctx, "SELECT pg_notify($1, $2)", channel, payload); err != nil {
			return err
		}
	}
	return nil
}

func listen(w *worker) error {
	channel := "channel_" + w.who[len(w.who)-1:]
	if _, err := w.execute("LISTEN " + channel); err != nil {
		return err
	}
	if err := notify(channel); err != nil {
		return err
	}
	if _, err := w.execute("NOTIFY " + channel + ", 'own'"); err != nil {
		return err
	}
	for _, payload := range payloads {
		said, err := w.WaitForNotification(w.ctx)
		if err != nil {
			return err
		}
		if said.Payload != payload {
			return fmt.Errorf("notification %q, not %q", said.Payload, payload)
		}
	}
	_, err := w.execute("UNLISTEN " + channel)
	_, late := w.execute("NOTIFY " + channel + ", 'nobody listens'")
	return errors.Join(err, late)
}

func (w *worker) connect() error {
	config, err := pgx.ParseConfig("")
	if err != nil {
		return err
	}
	config.DefaultQueryExecMode = modes[os.Args[1]]
	config.OnNotice = func(_ *pgconn.PgConn, said *pgconn.Notice) {
		w.notices = append(w.notices, said.Message)
	}
	w.Conn, err = pgx.ConnectConfig(w.ctx, config)
	return err
}

func say(name string, number int, err error) bool {
	if err == nil {
		fmt.Println("ok", name)
		return true
	}
	words := strings.ReplaceAll(err.Error(), "\n", "; ")
	fmt.Printf("failed %s connection %d: %s\n", name, number, words)
	return false
}

func work(number int) {
	w := &worker{ctx: context.Background(), who: fmt.Sprint("connection ", number)}
	if err := w.connect(); err != nil {
		say("connect", number, err)
		return
	}
	defer w.Close(w.ctx)
	for i := 0; i < rounds*len(scenarios); i++ {
		scenario := scenarios[(i+number)%len(scenarios)]
		if !say(scenario.name, number, scenario.run(w)) {
			return
		}
	}
}

func main() {
	if len(os.Args) > 2 && os.Args[2] == "failover" {
		failover(kinds, startPgx)
		return
	}
	if len(os.Args) > 2 && os.Args[2] == "session" {
		scenarios = sessionScenarios()
	}
	var group sync.WaitGroup
	for number := 0; number < connections; number++ {
		group.Add(1)
		go func() {
			defer group.Done()
			work(number)
		}()
	}
	group.Wait()
}
