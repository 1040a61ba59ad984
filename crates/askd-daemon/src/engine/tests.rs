//! What the writer thread must not let happen between two messages.

use askd_core::ask::{Action, Class, RequesterKind};
use askd_core::{Answer, Decision, LinkId, Raise};
use askd_journal::MemoryJournal;
use uuid::Uuid;

use super::batch::MOST_PER_BATCH;
use super::*;
use crate::http::RandomIds;

pub(crate) fn raise(number: u128, agent: &Instance) -> Raise {
    Raise {
        id: AskId(Uuid::from_u128(number)),
        key: number.to_string(),
        token: TokenHash::of(b"a requester"),
        link: LinkId(1),
        kind: RequesterKind::Hook,
        action: Action {
            tool: "Bash".to_owned(),
            kind: None,
            title: None,
            input: Some(r#"{"command":"ls"}"#.to_owned()),
            cwd: None,
        },
        class: Class::Tool,
        attendance: None,
        session: SessionKey { agent: "bench".to_owned(), session: "s".to_owned() },
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
        instance: Some(agent.clone()),
        owner: None,
        own_prompt: None,
        needs_own_prompt: false,
        supersedes: None,
        place: None,
        extra: serde_json::Map::new(),
    }
}

/// More asks than a batch takes, and behind them an answer to the first: it is looked up when that one is written,
/// and whoever answers is judged by the agents that are known then.
#[tokio::test]
async fn s1_an_answer_is_judged_by_the_agents_that_are_known_when_its_ask_is() {
    let clock = Clock::new();
    let journal = MemoryJournal::new();
    let writer =
        Writer::open(journal, Settings::default(), Box::new(RandomIds), Box::new(()), clock.now()).unwrap();
    let (published, _told) = crate::publish::outlet();
    let (agents, _found) = mpsc::unbounded_channel();
    let outlets = Outlets { published, alarm: watch::channel(None).0, agents };
    let (engine, _thread) = Engine::start(writer, clock, outlets).unwrap();

    let agent = Instance { host: "here".to_owned(), pid: 7, start: 70 };
    let first = raise(1, &agent);
    let (id, digest) = (first.id, first.action.digest());
    engine.tell(Command::Raise(Box::new(first)));
    for number in 2..=2 * MOST_PER_BATCH as u128 {
        engine.tell(Command::Raise(Box::new(raise(number, &agent))));
    }
    let by = agent.clone();
    let answer = move |ask, agents: &BTreeSet<Instance>, _: Option<(&Instance, &Handle)>| Answer {
        ask,
        digest,
        decision: Decision::Allow,
        option: None,
        message: None,
        stop: false,
        surface: "test".to_owned(),
        remote: false,
        by: None,
        refused: agents.contains(&by).then(|| "an agent".to_owned()),
    };
    let done = engine
        .answers(vec![(id.to_string(), Box::new(answer) as Box<MakeAnswer>)])
        .await
        .pop()
        .flatten()
        .unwrap();
    assert!(matches!(done.reply, Err(Refusal::NotPermitted(_))), "{:?}", done.reply);
    engine.leave(false).await;
}
