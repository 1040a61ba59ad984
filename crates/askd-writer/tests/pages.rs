//! How many pages of the journal the life of an ask costs: each is a frame of the write-ahead log, written and synced.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

use std::path::Path;

use askd_core::ask::{Action, Attendance, Class, RequesterKind};
use askd_core::time::{BootId, Stamp};
use askd_core::{Answer, AskId, Command, Decision, Hash256, LinkId, Now, Raise, Reply, SessionKey, Settings};
use askd_journal::{OpenOptions, Reader as _, SqliteJournal};
use askd_writer::{Ids, Writer};
use uuid::Uuid;

/// A frame: a page and its header.
const FRAME: u64 = 4096 + 24;

/// As the daemon's: in the order in which they are given.
struct Counted(u128);

impl Ids for Counted {
    fn next(&mut self) -> Uuid {
        self.0 += 1;
        Uuid::from_u128(0x018f_0000_0000_7000_8000_0000_0000_0000 + self.0)
    }
}

fn now(n: u32) -> Now {
    Stamp {
        boot: BootId(Uuid::from_u128(1)),
        boot_ms: 1_000 + u64::from(n) * 10,
        wall_ms: 1_700_000_000_000 + i64::from(n) * 10,
    }
}

fn open(path: &Path, ids: u128) -> Writer<SqliteJournal> {
    let journal = SqliteJournal::open(path, OpenOptions::default()).unwrap();
    // As many as there are may wait.
    let settings = Settings { queue_cap: 10_000, ..Settings::default() };
    Writer::open(journal, settings, Box::new(Counted(ids)), Box::new(()), now(0)).unwrap()
}

fn id(n: u32) -> AskId {
    AskId(Uuid::from_u128(0x018e_0000_0000_7000_8000_0000_0000_0000 + u128::from(n)))
}

fn raise(n: u32) -> Raise {
    Raise {
        id: id(n),
        key: format!("key-{n}"),
        token: Hash256::of(&n.to_be_bytes()),
        link: LinkId(u64::from(n)),
        kind: RequesterKind::Library,
        action: Action {
            tool: "Bash".to_owned(),
            kind: None,
            title: None,
            input: Some(format!("{{\"command\":\"make test-{n}\"}}")),
            cwd: Some("/work".to_owned()),
        },
        class: Class::Tool,
        attendance: Some(Attendance::Background),
        session: SessionKey { agent: "claude-code".to_owned(), session: "s".to_owned() },
        parent: None,
        root: None,
        subagent: None,
        job: None,
        call: Some(format!("call-{n}")),
        turn: None,
        title: None,
        options: Vec::new(),
        deadline_ms: Some(60_000),
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

/// The steps of an ask's life, each of which is a commit for itself when nothing else waits.
fn life(writer: &Writer<SqliteJournal>, n: u32, step: usize) -> Command {
    let token = Hash256::of(&n.to_be_bytes());
    match step {
        0 => Command::Raise(Box::new(raise(n))),
        1 => Command::Answer(Answer {
            ask: id(n),
            digest: writer.state().ask(id(n)).unwrap().ask.digest,
            decision: Decision::Allow,
            option: None,
            message: None,
            stop: false,
            surface: "terminal".to_owned(),
            remote: false,
            by: Some("ana".to_owned()),
            refused: None,
        }),
        2 => Command::Handed { ask: id(n), token },
        _ => Command::Confirmed { ask: id(n), token },
    }
}

#[test]
fn a_life_of_an_ask_costs_few_pages() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("j/journal.db");
    const BEFORE: u32 = 3_000;
    let mut writer = open(&path, 0);
    for chunk in (0..BEFORE).collect::<Vec<_>>().chunks(500) {
        for step in 0..4 {
            let commands: Vec<Command> = chunk.iter().map(|n| life(&writer, *n, step)).collect();
            let batched = writer.run(&commands, now(chunk[0])).unwrap();
            assert!(batched.replies.iter().all(Result::is_ok), "{:?}", batched.replies[0]);
        }
    }
    drop(writer);
    // From an empty log on.
    let mut writer = open(&path, u128::from(BEFORE) * 100);
    let log = place.path().join("j/journal.db-wal");
    let frames = || std::fs::metadata(&log).map_or(0, |m| m.len().saturating_sub(32) / FRAME);
    const MEASURED: u32 = 100;
    let mut cost = [0; 4];
    for n in BEFORE..BEFORE + MEASURED {
        for (step, cost) in cost.iter_mut().enumerate() {
            let before = frames();
            let command = life(&writer, n, step);
            let batched = writer.run(&[command], now(n)).unwrap();
            assert!(matches!(batched.replies[0], Ok(Reply::Raised(_) | Reply::Done | Reply::Settled(_))));
            *cost += frames() - before;
        }
    }
    let each: Vec<f64> = cost.iter().map(|frames| *frames as f64 / f64::from(MEASURED)).collect();
    println!("frames per commit: asked, settled, handed, confirmed: {each:?}");
    assert!(each.iter().sum::<f64>() < 16.0, "{each:?}");
    assert_eq!(writer.journal().read(&askd_core::id::StreamId::Ask(id(BEFORE))).unwrap().len(), 4);
}
