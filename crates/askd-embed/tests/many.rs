//! Duplicates after very many calls: known by the journal, while memory holds next to nothing.

use askd_core::ask::{Action, Class, RequesterKind};
use askd_core::{
    Answer, AskId, BootId, Command, Decision, Digest, Hash256, LinkId, Raise, Refusal, Reply, SessionKey,
    Settings, Stamp,
};
use askd_journal::MemoryJournal;
use askd_serve::ids::{RandomIds, new_ask};
use askd_writer::Writer;

const BATCH: usize = 250;

fn raise(number: usize, id: AskId) -> Raise {
    Raise {
        id,
        key: format!("toolu_{number}"),
        token: Hash256::of(b"the host"),
        link: LinkId(1),
        kind: RequesterKind::Library,
        action: Action {
            tool: "Bash".to_owned(),
            kind: None,
            title: None,
            input: Some(format!("{{\"command\":\"touch {number}\"}}")),
            cwd: None,
        },
        class: Class::Tool,
        attendance: None,
        session: SessionKey { agent: "host".to_owned(), session: "s".to_owned() },
        parent: None,
        root: None,
        subagent: None,
        job: None,
        call: Some(format!("toolu_{number}")),
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

fn answer(ask: AskId, digest: Digest, decision: Decision) -> Command {
    Command::Answer(Answer {
        ask,
        digest,
        decision,
        option: None,
        message: None,
        stop: false,
        surface: "screen".to_owned(),
        remote: false,
        by: None,
        refused: None,
    })
}

#[test]
fn c4_a_duplicate_is_known_by_the_journal_after_1_000_10_000_and_100_000_calls() {
    let boot = BootId(uuid::Uuid::nil());
    let mut now = Stamp { boot, boot_ms: 1_000, wall_ms: 1_800_000_000_000 };
    let settings = Settings::default();
    let mut writer =
        Writer::open(MemoryJournal::new(), settings, Box::new(RandomIds), Box::new(()), now).unwrap();
    let token = Hash256::of(b"the host");
    let mut known: Vec<(AskId, Digest)> = Vec::new();
    let mut most = 0;
    for batch in 0..100_000 / BATCH {
        now.boot_ms += 1_000;
        now.wall_ms += 1_000;
        let numbers = batch * BATCH..(batch + 1) * BATCH;
        let raises: Vec<Command> = numbers
            .map(|number| Command::Raise(Box::new(raise(number, new_ask(now.wall_ms).unwrap()))))
            .collect();
        let raised = writer.run(&raises, now).unwrap();
        let asks: Vec<(AskId, Digest)> = raised
            .replies
            .iter()
            .map(|reply| match reply {
                Ok(Reply::Raised(id)) => (*id, writer.state().ask(*id).unwrap().ask.digest),
                other => panic!("{other:?}"),
            })
            .collect();
        let answers: Vec<Command> =
            asks.iter().map(|(ask, digest)| answer(*ask, *digest, Decision::Allow)).collect();
        assert!(writer.run(&answers, now).unwrap().replies.iter().all(Result::is_ok));
        most = most.max(writer.state().asks().count());
        let ends: Vec<Command> = asks
            .iter()
            .flat_map(|(ask, _)| {
                [Command::Handed { ask: *ask, token }, Command::Confirmed { ask: *ask, token }]
            })
            .collect();
        assert!(writer.run(&ends, now).unwrap().replies.iter().all(Result::is_ok));
        known.extend(asks);

        if [1_000, 10_000, 100_000].contains(&known.len()) {
            let (first, newest) = (0, known.len() - 1);
            for index in [first, 1, known.len() / 2, newest] {
                let (ask, digest) = known[index];
                let again = [answer(ask, digest, Decision::Deny), answer(ask, digest, Decision::Allow)];
                for reply in writer.run(&again, now).unwrap().replies {
                    assert_eq!(reply, Err(Refusal::AlreadySettled(ask)), "call {index} of {}", known.len());
                }
                // And it stays what it was: handed over once.
                let told = writer.run(&[Command::Handed { ask, token }], now).unwrap().replies;
                assert!(matches!(told[..], [Ok(Reply::Done)]), "{told:?}");
            }
        }
    }
    assert!(most <= 2 * BATCH, "{most} asks were held");
    assert_eq!(writer.state().asks().count(), 0);
}
