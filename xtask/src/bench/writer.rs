//! The shipped writer without sockets: requesters in threads, one writer thread that drains its queue.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use askd_core::ask::{Action, Class, RequesterKind};
use askd_core::{
    Answer, AskId, BootId, Command, Decision, Hash256, LinkId, Now, Raise, Refusal, Reply, SessionKey,
    Settings,
};
use askd_journal::{OpenOptions, SqliteJournal};
use askd_writer::{Ids, Writer};
use serde_json::json;
use uuid::Uuid;

use super::baseline::{group_commit, join};
use super::daemon::{middle, per_second};
use super::report::{Report, Target};
use super::world::World;
use super::{BODY, REQUESTERS};

/// Each ask and each answer is durable.
const CROWD: &str = "128 requesters at once, at the writer";

/// Many requesters, against the raw group commit of as many events.
pub(crate) fn measure(world: &World, report: &mut Report) {
    if let Err(error) = crowd(world, report) {
        report.failed(CROWD, &error);
    }
}

fn crowd(world: &World, report: &mut Report) -> Result<()> {
    let place = world.place("writer")?;
    let asks = world.count(100);
    let (mut raw, mut rate) = (Vec::new(), Vec::new());
    for turn in 0..3 {
        raw.push(group_commit(&place.join(format!("raw{turn}")), REQUESTERS, 2 * asks)?);
        rate.push(throughput(&place.join(format!("writer{turn}")).join("journal.db"), asks)?);
    }
    let (raw, rate) = (middle(raw), middle(rate));
    report.figure("writer_events_per_second", json!(rate));
    report.row(CROWD, per_second(rate), per_second(raw), rate / raw, Target::AtLeast(0.6));
    Ok(())
}

type Asked = (Command, SyncSender<Result<Reply, Refusal>>);

/// Events per second, an ask and its answer being two.
fn throughput(journal: &Path, asks: usize) -> Result<f64> {
    let journal = SqliteJournal::open(journal, OpenOptions::default())?;
    let mut writer = Writer::open(journal, Settings::default(), Box::new(Counting(0)), Box::new(()), at(0))?;
    let (queue, commands) = channel::<Asked>();
    let began = Instant::now();
    let requesters: Vec<_> = (0..REQUESTERS)
        .map(|n| {
            let queue = queue.clone();
            thread::spawn(move || requester(n, asks, &queue))
        })
        .collect();
    drop(queue);
    let mut clock = 0;
    while let Ok(first) = commands.recv() {
        clock += 1;
        serve(&mut writer, first, &commands, at(clock))?;
    }
    for requester in requesters {
        join(requester)?;
    }
    Ok(2.0 * (REQUESTERS * asks) as f64 / began.elapsed().as_secs_f64())
}

fn serve(writer: &mut Writer<SqliteJournal>, first: Asked, queue: &Receiver<Asked>, now: Now) -> Result<()> {
    let (commands, senders): (Vec<_>, Vec<_>) = std::iter::once(first).chain(queue.try_iter()).unzip();
    let Ok(batched) = writer.run(&commands, now) else { bail!("the writer died") };
    for (sender, reply) in senders.into_iter().zip(batched.replies) {
        let _ = sender.send(reply);
    }
    let _ = writer.released();
    Ok(())
}

fn requester(n: usize, asks: usize, queue: &Sender<Asked>) -> Result<()> {
    // One for all, as the baseline has it.
    let (reply, answer) = sync_channel(1);
    let call = |command: Command| -> Result<Reply> {
        queue.send((command, reply.clone())).ok().context("the writer is gone")?;
        Ok(answer.recv()??)
    };
    for count in 0..asks {
        let raise = raise(n, count);
        let digest = raise.action.digest();
        let Reply::Raised(ask) = call(Command::Raise(Box::new(raise)))? else { bail!("asked before") };
        call(Command::Answer(Answer {
            ask,
            digest,
            decision: Decision::Allow,
            option: None,
            message: None,
            stop: false,
            surface: "bench".to_owned(),
            remote: false,
            by: None,
            refused: None,
        }))?;
    }
    Ok(())
}

fn raise(requester: usize, count: usize) -> Raise {
    // Ids of a daemon begin with the time.
    let number = (count as u128) << 64 | requester as u128;
    Raise {
        id: AskId(Uuid::from_u128(number)),
        key: count.to_string(),
        token: Hash256::of(&requester.to_be_bytes()),
        link: LinkId(requester as u64),
        kind: RequesterKind::Script,
        action: Action {
            tool: "Bash".to_owned(),
            kind: None,
            title: None,
            input: Some(json!({"command": "x".repeat(BODY)}).to_string()),
            cwd: Some("/tmp".to_owned()),
        },
        class: Class::Tool,
        attendance: None,
        session: SessionKey { agent: "bench".to_owned(), session: requester.to_string() },
        parent: None,
        root: None,
        subagent: None,
        job: None,
        call: None,
        turn: None,
        title: None,
        options: Vec::new(),
        deadline_ms: None,
        gives_up_ms: None,
        grace_ms: 60_000,
        instance: None,
        owner: None,
        own_prompt: None,
        needs_own_prompt: false,
        supersedes: None,
        place: None,
        extra: serde_json::Map::new(),
    }
}

fn at(ms: u64) -> Now {
    Now { boot: BootId(Uuid::nil()), boot_ms: ms, wall_ms: i64::try_from(ms).unwrap_or(i64::MAX) }
}

/// Ids in a row; nothing else writes to these journals.
struct Counting(u128);

impl Ids for Counting {
    fn next(&mut self) -> Uuid {
        self.0 += 1;
        Uuid::from_u128(self.0)
    }
}
