//! What the machine itself costs: a commit, a group of commits, a socket round trip.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rusqlite::{Connection, params};

use super::BODY;
use super::samples::Samples;
use super::world::World;

/// A database as the journal has it: WAL and FULL, one table of events.
fn database(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch(
        "CREATE TABLE event(position INTEGER PRIMARY KEY, stream TEXT NOT NULL, body BLOB NOT NULL)",
    )?;
    Ok(connection)
}

/// One event in one durable commit, `count` times.
pub(crate) struct Commits {
    connection: Connection,
    body: Vec<u8>,
}

impl Commits {
    pub(crate) fn new(path: &Path) -> Result<Self> {
        Ok(Self { connection: database(path)?, body: vec![b'x'; BODY] })
    }

    pub(crate) fn measure(&mut self, count: usize) -> Result<Samples> {
        let mut samples = Samples::default();
        let mut insert = self.connection.prepare("INSERT INTO event(stream, body) VALUES(?1, ?2)")?;
        for number in 0..count {
            let stream = format!("ask/{number}");
            samples.time(|| insert.execute(params![stream, self.body]))?;
        }
        Ok(samples)
    }
}

/// Events per second when `askers` threads each wait for every one of their `events` to be durable, and one
/// thread commits all that wait in one transaction.
pub(crate) fn group_commit(path: &Path, askers: usize, events: usize) -> Result<f64> {
    type Event = (String, Vec<u8>, mpsc::SyncSender<()>);
    let mut connection = database(path)?;
    let (sender, receiver) = mpsc::channel::<Event>();
    let writer = thread::spawn(move || -> Result<()> {
        while let Ok(first) = receiver.recv() {
            let mut batch = vec![first];
            batch.extend(receiver.try_iter());
            let transaction = connection.transaction()?;
            {
                let mut insert =
                    transaction.prepare_cached("INSERT INTO event(stream, body) VALUES(?1, ?2)")?;
                for (stream, body, _) in &batch {
                    insert.execute(params![stream, body])?;
                }
            }
            transaction.commit()?;
            for (_, _, waiter) in batch {
                let _ = waiter.send(());
            }
        }
        Ok(())
    });
    let start = Instant::now();
    let threads: Vec<_> = (0..askers)
        .map(|asker| {
            let sender = sender.clone();
            thread::spawn(move || -> Result<()> {
                let (done, wait) = mpsc::sync_channel(1);
                for number in 0..events {
                    let event = (format!("ask/{asker}-{number}"), vec![b'x'; BODY], done.clone());
                    if sender.send(event).is_err() {
                        bail!("the writer is gone");
                    }
                    wait.recv().context("the writer is gone")?;
                }
                Ok(())
            })
        })
        .collect();
    for thread in threads {
        join(thread)?;
    }
    let took = start.elapsed();
    drop(sender);
    join(writer)?;
    Ok((askers * events) as f64 / took.as_secs_f64())
}

/// The result of a thread; a panic in it is an error.
pub(crate) fn join<T>(thread: thread::JoinHandle<Result<T>>) -> Result<T> {
    match thread.join() {
        Ok(result) => result,
        Err(_) => bail!("a thread panicked"),
    }
}

/// Round trips of one body over an open Unix socket to another process.
pub(crate) struct Trips {
    stream: UnixStream,
    _peer: super::world::Helper,
}

impl Trips {
    pub(crate) fn new(world: &World, place: &Path) -> Result<Self> {
        let path = place.join("echo.sock");
        let socket = path.to_str().context("a path that is no text")?;
        let peer = world.helper(&["echo", socket])?;
        Ok(Self { stream: UnixStream::connect(socket)?, _peer: peer })
    }

    pub(crate) fn measure(&mut self, count: usize) -> Result<Samples> {
        let mut samples = Samples::default();
        let (sent, mut back) = (vec![b'x'; BODY], vec![0; BODY]);
        for _ in 0..count {
            samples.time(|| {
                self.stream.write_all(&sent)?;
                self.stream.read_exact(&mut back)
            })?;
        }
        Ok(samples)
    }
}

/// Child: one connection, every body sent back.
pub(crate) fn echo(socket: &str) -> Result<()> {
    let listener = UnixListener::bind(socket)?;
    println!("ready");
    let (mut stream, _) = listener.accept()?;
    let mut body = vec![0; BODY];
    while stream.read_exact(&mut body).is_ok() {
        stream.write_all(&body)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn baselines_are_durable_commits() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("one");
        let mut commits = Commits::new(&path).unwrap();
        assert!(commits.measure(5).unwrap().p50() > 0.0);
        let read = |sql: &str| commits.connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(read("SELECT count(*) FROM event"), 5);
        assert_eq!(read("PRAGMA synchronous"), 2);

        let path = dir.path().join("group");
        assert!(group_commit(&path, 4, 10).unwrap() > 0.0);
        let connection = Connection::open(&path).unwrap();
        let count: i64 = connection.query_row("SELECT count(*) FROM event", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 40);
    }
}
