// SPDX-License-Identifier: ISC

//! tokio-postgres. It prepares whatever it runs, under a name, and closes it when it is dropped.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join_all, poll_fn};
use futures_util::{SinkExt, TryStreamExt};
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, GenericClient, NoTls, SimpleQueryMessage};

const CONNECTIONS: usize = 6;
const ROUNDS: usize = 3;
const TEXTS: i32 = 8; // more than a server may know when the limit is small
const LINES: i32 = 200;
const PAYLOADS: [&str; 4] = ["0", "1", "2", "own"];
const PLAIN: [&str; 9] = [
    "simple", "prepared", "rollback", "recovery", "copy", "batch", "cursor", "cancel", "notices",
];

type Outcome = Result<(), Box<dyn Error>>;
type Value<'a> = &'a (dyn ToSql + Sync);

struct Worker {
    client: Client,
    notices: UnboundedReceiver<String>,
    notifications: UnboundedReceiver<String>,
    who: String,
}

fn same<T: PartialEq + std::fmt::Debug>(got: T, wanted: T) -> Outcome {
    if got == wanted {
        return Ok(());
    }
    Err(format!("{got:?}, not {wanted:?}").into())
}

fn must_fail<T>(state: SqlState, got: Result<T, tokio_postgres::Error>) -> Outcome {
    match got {
        Ok(_) => Err(format!("no error {state:?}").into()),
        Err(error) if error.code() == Some(&state) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn number<C: GenericClient>(
    on: &C,
    sql: &str,
    values: &[Value<'_>],
) -> Result<i32, tokio_postgres::Error> {
    on.query_one(sql, values).await?.try_get(0)
}

async fn divide<C: GenericClient>(on: &C, by: i32) -> Result<i32, tokio_postgres::Error> {
    number(on, "SELECT 10 / $1::int", &[&by]).await
}

async fn count<C: GenericClient>(on: &C, who: &str) -> Result<i32, tokio_postgres::Error> {
    number(on, "SELECT count(*)::int FROM driver_rows WHERE who = $1", &[&who]).await
}

async fn insert<C: GenericClient>(on: &C, who: &str, number: i32) -> Outcome {
    on.execute("INSERT INTO driver_rows VALUES ($1, $2)", &[&who, &number]).await?;
    Ok(())
}

async fn clear(worker: &Worker) -> Outcome {
    worker.client.execute("DELETE FROM driver_rows WHERE who = $1", &[&worker.who]).await?;
    Ok(())
}

async fn simple(worker: &Worker) -> Outcome {
    let got = worker.client.simple_query("SELECT 1; SELECT 2").await?;
    let rows = got.iter().filter(|message| matches!(message, SimpleQueryMessage::Row(_)));
    same(rows.count(), 2)
}

async fn prepared(worker: &Worker) -> Outcome {
    let mut statements = Vec::new();
    for text in 0..TEXTS {
        statements.push(worker.client.prepare(&format!("SELECT $1::int + {text}")).await?);
    }
    for again in 0..3 {
        for (text, statement) in statements.iter().enumerate() {
            let got: i32 = worker.client.query_one(statement, &[&again]).await?.try_get(0)?;
            same(got, text as i32 + again)?;
        }
    }
    Ok(())
}

async fn rollback(worker: &mut Worker) -> Outcome {
    let transaction = worker.client.transaction().await?;
    insert(&transaction, &worker.who, 1).await?;
    same(count(&transaction, &worker.who).await?, 1)?;
    transaction.rollback().await?;
    same(count(&worker.client, &worker.who).await?, 0)?;
    let transaction = worker.client.transaction().await?;
    insert(&transaction, &worker.who, 2).await?;
    transaction.commit().await?;
    same(count(&worker.client, &worker.who).await?, 1)?;
    clear(worker).await
}

async fn recovery(worker: &mut Worker) -> Outcome {
    must_fail(SqlState::DIVISION_BY_ZERO, divide(&worker.client, 0).await)?;
    let nowhere = worker.client.query("SELECT $1::int FROM nowhere", &[&1]).await;
    must_fail(SqlState::UNDEFINED_TABLE, nowhere)?;
    same(divide(&worker.client, 5).await?, 2)?;
    let mut transaction = worker.client.transaction().await?;
    let savepoint = transaction.savepoint("here").await?;
    must_fail(SqlState::DIVISION_BY_ZERO, divide(&savepoint, 0).await)?;
    must_fail(SqlState::IN_FAILED_SQL_TRANSACTION, divide(&savepoint, 1).await)?;
    savepoint.rollback().await?;
    same(divide(&transaction, 2).await?, 5)?;
    transaction.rollback().await?;
    same(divide(&worker.client, 2).await?, 5)
}

async fn copy(worker: &Worker) -> Outcome {
    let (client, who) = (&worker.client, &worker.who);
    let sink = client.copy_in("COPY driver_rows FROM STDIN").await?;
    let mut sink = Box::pin(sink);
    for number in 0..LINES {
        sink.send(Bytes::from(format!("{who}\t{number}\n"))).await?;
    }
    same(sink.as_mut().finish().await?, LINES as u64)?;
    let sql = format!("COPY (SELECT number FROM driver_rows WHERE who = '{who}' ORDER BY 1) TO STDOUT");
    let pieces: Vec<Bytes> = client.copy_out(&sql).await?.try_collect().await?;
    let wanted: String = (0..LINES).map(|number| format!("{number}\n")).collect();
    same(String::from_utf8(pieces.concat())?, wanted)?;
    clear(worker).await
}

/// What is asked at once goes into one pipeline.
async fn batch(worker: &Worker) -> Outcome {
    let by: Vec<i32> = (-3..4).collect();
    let got = join_all(by.iter().map(|by| divide(&worker.client, *by))).await;
    for (by, got) in by.iter().zip(got) {
        match by {
            0 => must_fail(SqlState::DIVISION_BY_ZERO, got)?,
            _ => same(got?, 10 / by)?,
        }
    }
    let texts: Vec<String> = (0..TEXTS).map(|text| format!("SELECT $1::int * {text}")).collect();
    let values: [Value; 1] = [&2];
    let got = join_all(texts.iter().map(|sql| number(&worker.client, sql, &values))).await;
    for (text, got) in got.into_iter().enumerate() {
        same(got?, 2 * text as i32)?;
    }
    Ok(())
}

async fn cursor(worker: &mut Worker) -> Outcome {
    let transaction = worker.client.transaction().await?;
    let portal = transaction.bind("SELECT generate_series(1, $1::int)", &[&100]).await?;
    let mut got: Vec<i32> = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 10).await?;
        if rows.is_empty() {
            break;
        }
        got.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
        same(divide(&transaction, 5).await?, 2)?;
    }
    same(got, (1..=100).collect())?;
    transaction.commit().await?;
    Ok(())
}

/// A request that comes before its statement has no effect, so it is sent until the end.
async fn cancel(worker: &Worker) -> Outcome {
    let token = worker.client.cancel_token();
    let mut asleep = Box::pin(worker.client.query("SELECT pg_sleep($1)", &[&60f64]));
    loop {
        tokio::select! {
            got = &mut asleep => {
                must_fail(SqlState::QUERY_CANCELED, got)?;
                break;
            }
            _ = tokio::time::sleep(Duration::from_millis(100)) => {
                token.cancel_query(NoTls).await?;
            }
        }
    }
    same(divide(&worker.client, 5).await?, 2)
}

async fn notices(worker: &mut Worker) -> Outcome {
    while worker.notices.try_recv().is_ok() {}
    let sql = format!("DO $$ BEGIN RAISE NOTICE '{}'; END $$", worker.who);
    worker.client.batch_execute(&sql).await?;
    same(worker.notices.try_recv()?, worker.who.clone())
}

/// The lines of session.txt: scenario, statement, and a result if there is one to check.
fn session_steps() -> Vec<Vec<String>> {
    let text = std::fs::read_to_string("session.txt").unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split('\t').map(String::from).collect()).collect()
}

async fn execute(client: &Client, sql: &str) -> Result<Option<String>, tokio_postgres::Error> {
    let statement = client.prepare(sql).await?;
    let row = client.query(&statement, &[]).await?.into_iter().next();
    let is_text = statement.columns().first().is_some_and(|column| *column.type_() == Type::TEXT);
    match row {
        Some(row) if is_text => row.try_get(0),
        _ => Ok(None),
    }
}

async fn follow(worker: &Worker, name: &str) -> Outcome {
    let number = &worker.who[worker.who.len() - 1..];
    for step in session_steps().iter().filter(|step| step[0] == name) {
        let sql = step[1].replace("{n}", number);
        let got = execute(&worker.client, &sql).await;
        match step.get(2).map(String::as_str) {
            Some("*") => (),
            Some(result) => {
                let got = got.map_err(|error| format!("{sql}: {error:?}"))?;
                same((&sql, got), (&sql, Some(result.replace("{n}", number))))?
            }
            None => got.map(|_| ()).map_err(|error| format!("{sql}: {error:?}"))?,
        }
    }
    Ok(())
}

async fn listen(worker: &mut Worker) -> Outcome {
    let channel = worker.who.replace("connection ", "channel_");
    execute(&worker.client, &format!("LISTEN {channel}")).await?;
    let other = connect(0).await?;
    for payload in &PAYLOADS[..PAYLOADS.len() - 1] {
        other.client.query("SELECT pg_notify($1, $2)", &[&channel, payload]).await?;
    }
    execute(&worker.client, &format!("NOTIFY {channel}, 'own'")).await?;
    for payload in PAYLOADS {
        same(worker.notifications.recv().await, Some(payload.to_string()))?;
    }
    execute(&worker.client, &format!("UNLISTEN {channel}")).await?;
    execute(&worker.client, &format!("NOTIFY {channel}, 'nobody listens'")).await?;
    same(worker.notifications.try_recv().ok(), None)
}

async fn run(worker: &mut Worker, name: &str) -> Outcome {
    match name {
        "simple" => simple(worker).await,
        "prepared" => prepared(worker).await,
        "rollback" => rollback(worker).await,
        "recovery" => recovery(worker).await,
        "copy" => copy(worker).await,
        "batch" => batch(worker).await,
        "cursor" => cursor(worker).await,
        "cancel" => cancel(worker).await,
        "notices" => notices(worker).await,
        "listen" => listen(worker).await,
        _ => follow(worker, name).await,
    }
}

async fn connect(number: usize) -> Result<Worker, Box<dyn Error>> {
    let config = ["HOST", "PORT", "USER"].map(|key| {
        format!("{}={} ", key.to_lowercase(), std::env::var(format!("PG{key}")).unwrap_or_default())
    });
    let config = config.concat() + "dbname=" + &std::env::var("PGDATABASE")?;
    let (client, mut connection) = tokio_postgres::connect(&config, NoTls).await?;
    let (told, notices) = unbounded_channel();
    let (notified, notifications) = unbounded_channel();
    tokio::task::spawn_local(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            let _ = match message {
                AsyncMessage::Notice(notice) => told.send(notice.message().to_string()),
                AsyncMessage::Notification(said) => notified.send(said.payload().to_string()),
                _ => Ok(()),
            };
        }
    });
    Ok(Worker { client, notices, notifications, who: format!("connection {number}") })
}

fn failed(name: &str, number: usize, error: Box<dyn Error>) {
    let words = format!("{error} {error:?}").replace('\n', " ");
    println!("failed {name} connection {number}: {words}");
}

/// Those that the arguments ask for.
fn scenarios() -> Vec<String> {
    if std::env::args().nth(2).as_deref() != Some("session") {
        return PLAIN.map(String::from).to_vec();
    }
    let mut names: Vec<String> = session_steps().into_iter().map(|step| step[0].clone()).collect();
    names.dedup();
    names.push("listen".to_string());
    names
}

async fn work(number: usize) {
    let mut worker = match connect(number).await {
        Ok(worker) => worker,
        Err(error) => return failed("connect", number, error),
    };
    let names = scenarios();
    for turn in 0..ROUNDS * names.len() {
        let name = &names[(turn + number) % names.len()];
        match run(&mut worker, name).await {
            Ok(()) => println!("ok {name}"),
            Err(error) => return failed(name, number, error),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    tokio::task::LocalSet::new().run_until(join_all((0..CONNECTIONS).map(work))).await;
}
