// SPDX-License-Identifier: ISC

//! tokio-postgres while hosts fail: see python/failover.py.

use std::cell::RefCell;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, GenericClient, NoTls};

type Value<'a> = &'a (dyn ToSql + Sync);

const CLIENTS: usize = 2; // of each kind
const PAUSE: Duration = Duration::from_millis(5);
const INSERT: &str = "INSERT INTO written VALUES ($1)";
const KINDS: [&str; 4] = ["autocommit", "simple", "transaction", "together"];

static IS_OVER: AtomicBool = AtomicBool::new(false);

struct Writer {
    kind: &'static str,
    name: String,
    rows: RefCell<Vec<String>>,
    count: RefCell<usize>,
    stage: &'static str,
}

impl Writer {
    fn new_row(&self) -> String {
        *self.count.borrow_mut() += 1;
        let row = format!("{}/{}", self.name, self.count.borrow());
        self.rows.borrow_mut().push(row.clone());
        row
    }

    async fn insert<C: GenericClient>(&self, on: &C) -> Result<(), Error> {
        on.execute(INSERT, &[&self.new_row()]).await.map(|_| ())
    }

    async fn transaction(&mut self, client: &mut Client) -> Result<(), Error> {
        self.stage = "begin";
        let transaction = client.transaction().await?;
        self.stage = "work";
        self.insert(&transaction).await?;
        self.insert(&transaction).await?;
        self.stage = "commit";
        transaction.commit().await
    }

    /// What is asked at once goes into one pipeline.
    async fn together(&self, client: &Client) -> Result<(), Error> {
        let statement = client.prepare(INSERT).await?;
        let (one, two) = (self.new_row(), self.new_row());
        let (one, two): ([Value; 1], [Value; 1]) = ([&one], [&two]);
        let (begin, first, second, commit) = futures_util::join!(
            client.batch_execute("BEGIN"),
            client.execute(&statement, &one),
            client.execute(&statement, &two),
            client.batch_execute("COMMIT"),
        );
        begin.and(first.and(second).map(|_| ())).and(commit)
    }

    async fn step(&mut self, client: &mut Client) -> Result<(), Error> {
        match self.kind {
            "autocommit" => self.insert(client).await,
            "simple" => {
                let sql = format!("INSERT INTO written VALUES ('{}')", self.new_row());
                client.batch_execute(&sql).await
            }
            "transaction" => self.transaction(client).await,
            _ => self.together(client).await,
        }
    }

    async fn once(&mut self, open: &mut Option<Client>) -> Result<(), Error> {
        self.rows.borrow_mut().clear();
        self.stage = "connect";
        if open.is_none() {
            *open = Some(connect().await?);
        }
        self.stage = "work";
        match open {
            Some(client) => self.step(client).await,
            None => Ok(()),
        }
    }

    async fn run(mut self) {
        let mut open = None;
        while !IS_OVER.load(Ordering::Relaxed) {
            let outcome = self.once(&mut open).await;
            let rows = self.rows.borrow().join(" ");
            match outcome {
                Ok(()) => println!("ok\t{}\t{rows}", self.kind),
                Err(error) => {
                    let state = error.code().map_or("-", |state| state.code());
                    let words = format!("{error} {error:?}").replace(['\n', '\t'], " ");
                    println!("failed\t{}\t{}\t{state}\t{words}\t{rows}", self.kind, self.stage);
                    open = None;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn connect() -> Result<Client, Error> {
    let value = |key: &str| std::env::var(format!("PG{key}")).unwrap_or_default();
    let config = format!(
        "host={} port={} user={} dbname={}",
        value("HOST"), value("PORT"), value("USER"), value("DATABASE")
    );
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
    tokio::task::spawn_local(connection);
    Ok(client)
}

fn writers() -> impl Iterator<Item = Writer> {
    let program = std::env::var("PGAPPNAME").unwrap_or_default();
    KINDS.into_iter().flat_map(move |kind| {
        let program = program.clone();
        (0..CLIENTS).map(move |number| Writer {
            kind,
            name: format!("{program}/{kind}/{number}"),
            rows: RefCell::default(),
            count: RefCell::default(),
            stage: "connect",
        })
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        IS_OVER.store(true, Ordering::Relaxed);
    });
    tokio::task::LocalSet::new().run_until(join_all(writers().map(Writer::run))).await;
}
