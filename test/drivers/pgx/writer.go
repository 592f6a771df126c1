// SPDX-License-Identifier: ISC

package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pgxWriter writes while hosts fail.
type pgxWriter struct {
	*writer
	worker
}

var kinds = []string{"autocommit", "transaction", "batch", "copy"}

func (w *pgxWriter) autocommit() error {
	_, err := w.Exec(w.ctx, insert, w.newRow())
	return err
}

func (w *pgxWriter) transaction() error {
	w.stage = "begin"
	tx, err := w.Begin(w.ctx)
	if err != nil {
		return err
	}
	w.stage = "work"
	if err := errors.Join(w.autocommit(), w.autocommit()); err != nil {
		return err
	}
	w.stage = "commit"
	return tx.Commit(w.ctx)
}

func (w *pgxWriter) batch() error {
	batch := &pgx.Batch{}
	for i := 0; i < 3; i++ {
		batch.Queue(insert, w.newRow())
	}
	return w.SendBatch(w.ctx, batch).Close()
}

func (w *pgxWriter) copy() error {
	rows := [][]any{{w.newRow()}, {w.newRow()}}
	_, err := w.CopyFrom(w.ctx, pgx.Identifier{"written"}, []string{"id"}, pgx.CopyFromRows(rows))
	return err
}

func (w *pgxWriter) once() error {
	if w.Conn == nil {
		if err := w.connect(); err != nil {
			return err
		}
	}
	w.stage = "work"
	switch w.kind {
	case "transaction":
		return w.transaction()
	case "batch":
		return w.batch()
	case "copy":
		return w.copy()
	}
	return w.autocommit()
}

func startPgx(w *writer) func() (string, error) {
	mine := pgxWriter{w, worker{ctx: context.Background()}}
	return func() (string, error) {
		err := mine.once()
		sqlstate := ""
		var from *pgconn.PgError
		if errors.As(err, &from) {
			sqlstate = from.Code
		}
		if err != nil {
			mine.Conn = nil
		}
		return sqlstate, err
	}
}
