// SPDX-License-Identifier: ISC

// GORM with its defaults, on database/sql and pgx. Six pools of one connection each.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

const (
	connections = 6
	rounds      = 3
)

// Owner and Pet are the models.
type Owner struct {
	ID   uint
	Name string `gorm:"uniqueIndex"`
	Pets []Pet  `gorm:"constraint:OnDelete:CASCADE"`
}

// Pet belongs to an Owner.
type Pet struct {
	ID      uint
	OwnerID uint
	Number  int `gorm:"index"`
}

type worker struct {
	db  *gorm.DB
	who string
}

var scenarios = []struct {
	name string
	run  func(w *worker) error
}{
	{"rows", rows},
	{"savepoints", savepoints},
	{"pieces", pieces},
	{"parameters", parameters},
	{"connection", connection},
	{"lock", lock},
}

func open() (*gorm.DB, error) {
	db, err := gorm.Open(postgres.Open("sslmode=disable TimeZone=Asia/Tokyo"),
		&gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, err
	}
	pool, err := db.DB()
	if err == nil {
		pool.SetMaxOpenConns(1)
	}
	return db, err
}

func same[T comparable](got, wanted T) error {
	if got != wanted {
		return fmt.Errorf("%v, not %v", got, wanted)
	}
	return nil
}

// value is the one of a statement, which must be so.
func value[T comparable](db *gorm.DB, wanted T, sql string, values ...any) error {
	var got T
	if err := db.Raw(sql, values...).Row().Scan(&got); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	if got != wanted {
		return fmt.Errorf("%s: %v, not %v", sql, got, wanted)
	}
	return nil
}

func rows(w *worker) error {
	owner := Owner{Name: w.who}
	for number := 0; number < 20; number++ {
		owner.Pets = append(owner.Pets, Pet{Number: number})
	}
	if err := w.db.Create(&owner).Error; err != nil {
		return err
	}
	var got Owner
	err := errors.Join(
		w.db.Model(&Pet{}).Where("owner_id = ? AND number >= ?", owner.ID, 10).
			Update("number", gorm.Expr("number * 2")).Error,
		value(w.db, 38, "SELECT max(number) FROM pets WHERE owner_id = ?", owner.ID),
		w.db.Clauses(clause.OnConflict{DoNothing: true}).Create(&Owner{Name: w.who}).Error,
		w.db.Preload("Pets").First(&got, "name = ?", w.who).Error)
	return errors.Join(err, same(len(got.Pets), 20), w.db.Delete(&got).Error)
}

func savepoints(w *worker) error {
	undone := errors.New("undone")
	err := w.db.Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&Owner{Name: w.who}).Error; err != nil {
			return err
		}
		inner := tx.Transaction(func(tx *gorm.DB) error {
			return tx.Create(&Owner{Name: w.who}).Error
		})
		if inner == nil {
			return errors.New("no error of a unique index")
		}
		return errors.Join(undone,
			value(tx, 1, "SELECT count(*) FROM owners WHERE name = ?", w.who))
	})
	if err == nil || err.Error() != undone.Error() {
		return fmt.Errorf("the transaction: %w", err)
	}
	return value(w.db, 0, "SELECT count(*) FROM owners WHERE name = ?", w.who)
}

func pieces(w *worker) error {
	owner := Owner{Name: w.who + " in pieces", Pets: make([]Pet, 30)}
	if err := w.db.Create(&owner).Error; err != nil {
		return err
	}
	count := 0
	var pets []Pet
	err := w.db.Where("owner_id = ?", owner.ID).FindInBatches(&pets, 7,
		func(_ *gorm.DB, _ int) error {
			count += len(pets)
			return nil
		}).Error
	return errors.Join(err, same(count, 30), w.db.Delete(&owner).Error)
}

// parameters sets what several transactions must see.
func parameters(w *worker) error {
	path := strings.ReplaceAll(w.who, " ", "_") + ", public"
	err := errors.Join(w.db.Exec("SELECT set_config('app.tenant', ?, false)", w.who).Error,
		w.db.Exec("SET search_path = "+path).Error, w.db.Exec("SET statement_timeout = '33s'").Error)
	for i := 0; i < 3 && err == nil; i++ {
		err = errors.Join(value(w.db, w.who, "SELECT current_setting('app.tenant')"),
			value(w.db, path, "SHOW search_path"), value(w.db, "33s", "SHOW statement_timeout"),
			value(w.db, "Asia/Tokyo", "SHOW TimeZone"), rows(w))
	}
	return errors.Join(err, w.db.Exec("RESET search_path").Error,
		w.db.Exec("RESET statement_timeout").Error, w.db.Exec("RESET app.tenant").Error,
		value(w.db, 0, "SELECT count(*) FROM pg_settings WHERE setting <> reset_val"+
			" AND name IN ('search_path', 'statement_timeout')"))
}

// connection has a temporary table and a held cursor, without a transaction.
func connection(w *worker) error {
	return w.db.Connection(func(db *gorm.DB) error {
		err := errors.Join(db.Exec("CREATE TEMPORARY TABLE scratch (name text)").Error,
			db.Exec("INSERT INTO scratch SELECT ? FROM generate_series(1, 3)", w.who).Error,
			value(db, 3, "SELECT count(*) FROM scratch WHERE name = ?", w.who),
			db.Exec("DECLARE held CURSOR WITH HOLD FOR SELECT name FROM scratch").Error,
			value(db, w.who, "FETCH held"), value(db, w.who, "FETCH held"))
		return errors.Join(err, db.Exec("CLOSE held").Error, db.Exec("DROP TABLE scratch").Error)
	})
}

func lock(w *worker) error {
	pool, err := w.db.DB()
	if err != nil {
		return err
	}
	ctx := context.Background()
	one, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer one.Close()
	if _, err = one.ExecContext(ctx, "SELECT pg_advisory_lock(75)"); err != nil {
		return err
	}
	return errors.Join(holder(ctx, one, w.who), unlock(ctx, one))
}

func holder(ctx context.Context, one *sql.Conn, who string) error {
	var got string
	_, err := one.ExecContext(ctx, "UPDATE driver_lock SET holder = $1", who)
	return errors.Join(err,
		one.QueryRowContext(ctx, "SELECT holder FROM driver_lock").Scan(&got), same(got, who))
}

func unlock(ctx context.Context, one *sql.Conn) error {
	var is bool
	return errors.Join(one.QueryRowContext(ctx, "SELECT pg_advisory_unlock(75)").Scan(&is),
		same(is, true))
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
	db, err := open()
	if err != nil {
		say("connect", number, err)
		return
	}
	w := &worker{db: db, who: fmt.Sprint("connection ", number)}
	for i := 0; i < rounds*len(scenarios); i++ {
		scenario := scenarios[(i+number)%len(scenarios)]
		if !say(scenario.name, number, scenario.run(w)) {
			return
		}
	}
}

func main() {
	db, err := open()
	if err == nil {
		err = db.AutoMigrate(&Owner{}, &Pet{})
	}
	if err == nil { // again, over what is there
		err = db.AutoMigrate(&Owner{}, &Pet{})
	}
	if err != nil {
		fmt.Println("failed migration", err)
		os.Exit(1)
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
