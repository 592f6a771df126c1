// SPDX-License-Identifier: ISC

// lib/pq while hosts fail. The argument is binary_parameters.
//
// Each writer has a sql.Conn: sql.DB would repeat what may have run, because lib/pq reports the end
// of a session as driver.ErrBadConn (https://github.com/lib/pq/issues/939).
package main

import (
	"context"
	"database/sql"
	"errors"
	"os"

	"github.com/lib/pq"
)

type pqWriter struct {
	*writer
	db         *sql.DB
	connection *sql.Conn
	ctx        context.Context
}

func (w *pqWriter) autocommit() error {
	_, err := w.connection.ExecContext(w.ctx, insert, w.newRow())
	return err
}

func (w *pqWriter) simple() error {
	_, err := w.connection.ExecContext(w.ctx,
		"INSERT INTO written VALUES ('"+w.newRow()+"')")
	return err
}

func (w *pqWriter) transaction() error {
	w.stage = "begin"
	tx, err := w.connection.BeginTx(w.ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	w.stage = "work"
	for i := 0; i < 2; i++ {
		if _, err := tx.Exec(insert, w.newRow()); err != nil {
			return err
		}
	}
	w.stage = "commit"
	return tx.Commit()
}

func (w *pqWriter) once() (err error) {
	if w.connection == nil {
		if w.connection, err = w.db.Conn(w.ctx); err != nil {
			return err
		}
	}
	w.stage = "work"
	switch w.kind {
	case "simple":
		return w.simple()
	case "transaction":
		return w.transaction()
	}
	return w.autocommit()
}

func startPq(w *writer) func() (string, error) {
	db, err := sql.Open("postgres", "sslmode=disable binary_parameters="+os.Args[1])
	if err != nil {
		panic(err)
	}
	mine := pqWriter{w, db, nil, context.Background()}
	return func() (string, error) {
		err := mine.once()
		if err != nil && mine.connection != nil {
			_ = mine.connection.Close()
			mine.connection = nil
		}
		var from *pq.Error
		if errors.As(err, &from) {
			return string(from.Code), err
		}
		return "", err
	}
}

func main() {
	failover([]string{"autocommit", "simple", "transaction"}, startPq)
}
