//! A host of an agent, as small as one can be: the agent asks over a stream that may close at any time, a hook of the
//! host's own may decide, people answer at a surface. Each case is one way in which hosts have lost, doubled or
//! invented answers; each says what must be true instead. Run it: `cargo run -p askd-embed --example host`.
#![expect(clippy::expect_used, reason = "a case that goes otherwise ends the example")]

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use askd_client::{AskPort, Decides, HookStop, Raced, Unavailable, race};
use askd_embed::{Asker, Embedded, Journal, Shown, Surface};
use askd_wire::{
    Action, Answer, Ask, AskState, Class, Code, Decision, OutcomeKind, Problem, RaiseAsk, RequesterKind,
    Verdict,
};
use serde_json::Map;
use serde_json::value::RawValue;

/// How long a hook may think. It is no deadline of the ask.
const HOOK: Duration = Duration::from_secs(30);

/// A tool call of the agent.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// The agent's id of the call: the same for the call's whole life, whatever request carries it.
    pub(crate) tool_use: String,
    pub(crate) command: String,
}

/// What is written to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Response {
    /// With exactly the input that was shown.
    Allow(String),
    Deny(String),
}

impl Decides for Response {
    fn decision(&self) -> Decision {
        match self {
            Self::Allow(_) => Decision::Allow,
            Self::Deny(_) => Decision::Deny,
        }
    }
}

/// What the host made of one request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Handled {
    /// The agent has its response. With the id of the ask, unless the hook decided.
    Written(Response, Option<String>),
    /// It is decided, but the stream broke before it was written. The answer is kept: the same call asked again gets it.
    NotWritten,
    /// Nobody decided. Nothing is written: the agent's call stays open, or its turn is over.
    Undecided,
}

impl Handled {
    fn written(&self) -> Option<&Response> {
        match self {
            Self::Written(response, _) => Some(response),
            Self::NotWritten | Self::Undecided => None,
        }
    }
}

/// The agent's side of a stream, for the examples: what it read, and which calls ran how often.
#[derive(Debug, Default)]
pub(crate) struct Agent {
    pub(crate) ran: BTreeMap<String, u32>,
    pub(crate) denied: BTreeMap<String, String>,
}

impl Agent {
    fn hear(&mut self, call: &Call, responses: &Receiver<Response>) {
        for response in responses.try_iter() {
            match response {
                Response::Allow(_) => *self.ran.entry(call.tool_use.clone()).or_default() += 1,
                Response::Deny(why) => drop(self.denied.insert(call.tool_use.clone(), why)),
            }
        }
    }
}

/// The ask for a call. The key is the agent's own id of the call, so that a retry finds what was decided.
pub(crate) fn ask_for(call: &Call) -> RaiseAsk {
    let input = serde_json::json!({ "command": call.command }).to_string();
    RaiseAsk {
        key: call.tool_use.clone(),
        action: Action {
            tool: "Bash".to_owned(),
            kind: Some("execute".to_owned()),
            title: None,
            input: RawValue::from_string(input).ok(),
            cwd: None,
        },
        class: Class::Tool,
        attendance: None,
        agent: "example-host".to_owned(),
        session: "conversation".to_owned(),
        parent: None,
        root: None,
        subagent: None,
        job: None,
        tool_call: Some(call.tool_use.clone()),
        turn: None,
        session_title: None,
        options: Vec::new(),
        deadline_secs: None,
        gives_up_secs: None,
        requester: RequesterKind::Library,
        // A stream that breaks comes back within this, and finds its answer.
        grace_secs: 60,
        instance: None,
        own_prompt: None,
        needs_own_prompt: false,
        supersedes: None,
        place: None,
        extra: Map::new(),
    }
}

/// The one right way to handle a permission request.
pub(crate) fn handle<E>(
    asker: &mut Asker,
    call: &Call,
    stream: &Sender<Response>,
    hook: impl FnOnce(&HookStop) -> Result<Option<Response>, E> + Send + 'static,
) -> Result<Handled, Unavailable> {
    let raise = ask_for(call);
    let (response, ask) = match race(asker, &raise, HOOK, hook)? {
        Raced::Hook(response) => (response, None),
        Raced::Ask(ask) => match response(&ask) {
            Some(response) => (response, Some(ask.id)),
            None => return Ok(Handled::Undecided),
        },
    };
    // Decided is not delivered: only a response that was written is told as handed over.
    if stream.send(response.clone()).is_err() {
        return Ok(Handled::NotWritten);
    }
    if let Some(id) = &ask {
        asker.handed(id)?;
    }
    Ok(Handled::Written(response, ask))
}

/// What an ask that is over means for the agent. `None`: nothing was decided, and nothing is said.
fn response(ask: &Ask) -> Option<Response> {
    let outcome = ask.outcome.as_ref()?;
    match outcome.verdict {
        Verdict::Allow => Some(Response::Allow(ask.action.input.as_ref()?.get().to_owned())),
        Verdict::Deny => {
            Some(Response::Deny(outcome.reason_for_model.clone().unwrap_or(outcome.text.clone())))
        }
        Verdict::None => None,
    }
}

fn no_opinion(_: &HookStop) -> Result<Option<Response>, String> {
    Ok(None)
}

fn call(number: u32) -> Call {
    Call { tool_use: format!("toolu_{number}"), command: format!("touch {number}") }
}

/// The next ask that comes to the surface.
fn next_ask(surface: &Surface) -> Ask {
    next(surface, &["asked", "open"])
}

/// The next time that one of these happens.
fn next(surface: &Surface, what: &[&str]) -> Ask {
    loop {
        let Shown { what: this, ask } = surface.receive().expect("askd ended");
        if what.contains(&this) {
            surface.shown(&ask);
            return ask;
        }
    }
}

/// A person's yes or no.
fn answer(surface: &Surface, ask: &Ask, decision: Decision) -> Result<Ask, Box<Problem>> {
    let message = (decision == Decision::Deny).then(|| "not now".to_owned());
    let digest = ask.digest.clone();
    surface.answer(&ask.id, Answer { decision, digest, option: None, message, stop: false, surface: None })
}

fn embedded() -> Embedded {
    Embedded::open(&Journal::Memory, askd_embed::settings()).expect("a journal in memory opens")
}

/// The agent's parent aborts while the ask is open: nobody is denied, and an answer that comes afterwards runs nothing.
pub(crate) fn parent_aborts_during_an_ask() {
    let askd = embedded();
    let surface = askd.surface("screen");
    let pending = askd.asker().expect("askd works").pending(ask_for(&call(1))).expect("a thread");
    let ask = next_ask(&surface);
    pending.cancel();
    let gone = next(&surface, &["withdrawn"]);
    let outcome = gone.outcome.expect("it is over");
    assert_eq!((outcome.cause.as_str(), outcome.verdict), ("cancelled", Verdict::None));
    let refused = answer(&surface, &ask, Decision::Allow).expect_err("nobody waits for it");
    assert_eq!((refused.code, refused.recorded), (Code::AlreadySettled, None));
}

/// The stream is closed before the response can be written, or was before the ask: the call is asked again on the next
/// stream and gets what was decided. The person is not asked twice, and the call runs once.
pub(crate) fn stream_closed_before_the_response() {
    let askd = embedded();
    let surface = askd.surface("screen");
    let mut asker = askd.asker().expect("askd works");
    let mut agent = Agent::default();
    let (closed, reader) = channel();
    drop(reader);
    let answering = std::thread::spawn(move || {
        let ask = next_ask(&surface);
        answer(&surface, &ask, Decision::Allow).expect("the first answer settles");
        (surface, ask)
    });
    let first = handle(&mut asker, &call(1), &closed, no_opinion).expect("askd works");
    assert_eq!(first, Handled::NotWritten);
    let (surface, ask) = answering.join().expect("the person's thread");

    let (stream, responses) = channel();
    let retried = handle(&mut asker, &call(1), &stream, no_opinion).expect("askd works");
    assert_eq!(retried.written(), Some(&Response::Allow(r#"{"command":"touch 1"}"#.to_owned())));
    agent.hear(&call(1), &responses);
    assert_eq!(agent.ran["toolu_1"], 1);
    assert_eq!(next(&surface, &["handed", "asked"]).id, ask.id, "nobody was asked again");
}

/// The stream breaks while the ask is open: that denies nothing. The ask stays open and can be answered, and whoever
/// comes back for the same call gets the answer that came meanwhile.
pub(crate) fn stream_closed_during_an_ask() {
    let askd = embedded();
    let surface = askd.surface("screen");
    let asker = askd.asker().expect("askd works");
    let pending = asker.pending(ask_for(&call(1))).expect("a thread");
    let ask = next_ask(&surface);
    drop(pending);
    let detached = next(&surface, &["detached"]);
    assert_eq!((detached.state, detached.requester.link.as_str()), (AskState::Open, "detached"));
    answer(&surface, &ask, Decision::Deny).expect("it can still be answered");
    let (stream, _responses) = channel();
    let mut back = askd.asker_with_token(asker.token().to_owned());
    let handled = handle(&mut back, &call(1), &stream, no_opinion).expect("askd works");
    assert_eq!(handled.written(), Some(&Response::Deny("not now".to_owned())), "the person's own words");
}

/// A hook that fails in any way is no decision: not a deny, and no reason to stop waiting for the person.
pub(crate) fn hook_rejects_or_is_undecided() {
    type Hook = fn(&HookStop) -> Result<Option<Response>, String>;
    let hooks: [Hook; 3] =
        [|_| Err("no such program".to_owned()), no_opinion, |_| panic!("a fault of the hook")];
    for (number, hook) in (1..).zip(hooks) {
        let askd = embedded();
        let surface = askd.surface("screen");
        let (stream, responses) = channel();
        let handling = std::thread::spawn(move || {
            let mut asker = askd.asker().expect("askd works");
            handle(&mut asker, &call(number), &stream, hook).expect("askd works")
        });
        let ask = next_ask(&surface);
        answer(&surface, &ask, Decision::Allow).expect("the person decides");
        assert!(matches!(handling.join(), Ok(Handled::Written(Response::Allow(_), Some(_)))));
        let mut agent = Agent::default();
        agent.hear(&call(number), &responses);
        assert_eq!((agent.ran.len(), agent.denied.len()), (1, 0));
    }
}

/// A hook that decides first wins, and the ask goes away everywhere.
pub(crate) fn hook_decides_first() {
    let askd = embedded();
    let surface = askd.surface("screen");
    let mut asker = askd.asker().expect("askd works");
    let (stream, _responses) = channel();
    let (shown, is_shown) = channel::<()>();
    let handling = std::thread::spawn(move || {
        let hook = move |_: &HookStop| {
            // It takes until a person sees the ask.
            let _ = is_shown.recv();
            Ok::<_, String>(Some(Response::Deny("a rule of this host".to_owned())))
        };
        handle(&mut asker, &call(1), &stream, hook).expect("askd works")
    });
    let ask = next_ask(&surface);
    drop(shown);
    let gone = next(&surface, &["settled"]);
    let handled = handling.join().expect("the host's thread");
    assert_eq!(handled, Handled::Written(Response::Deny("a rule of this host".to_owned()), None));
    assert_eq!(gone.id, ask.id);
    let outcome = gone.outcome.expect("an outcome");
    assert_eq!((outcome.cause.as_str(), outcome.outcome), ("agent", OutcomeKind::Denied));
    answer(&surface, &ask, Decision::Allow).expect_err("the hook was first");
}

/// An answer that comes after its requester was lost is kept, said to be late, and settles the same call once.
pub(crate) fn late_response() {
    let askd = embedded();
    let surface = askd.surface("screen");
    // A requester that cannot come back: it asks for no grace.
    let raise = RaiseAsk { grace_secs: 0, ..ask_for(&call(1)) };
    let pending = askd.asker().expect("askd works").pending(raise).expect("a thread");
    let lost = next_ask(&surface);
    drop(pending);
    let gone = next(&surface, &["withdrawn"]);
    assert_eq!(gone.outcome.map(|outcome| outcome.cause), Some("requester_gone".to_owned()));
    let late = answer(&surface, &lost, Decision::Allow).expect_err("too late for that request");
    assert_eq!(late.recorded.as_deref(), Some("late"));

    let (stream, responses) = channel();
    let mut asker = askd.asker().expect("askd works");
    let retried = handle(&mut asker, &call(1), &stream, no_opinion).expect("askd works");
    assert!(matches!(retried, Handled::Written(Response::Allow(_), _)), "{retried:?}");
    let mut agent = Agent::default();
    agent.hear(&call(1), &responses);
    assert_eq!(agent.ran["toolu_1"], 1);

    // Once: the same call asked yet again is shown.
    let pending = asker.pending(ask_for(&call(1))).expect("a thread");
    let anew = loop {
        let ask = next_ask(&surface);
        if ask.state == AskState::Open {
            break ask;
        }
    };
    assert_ne!(anew.id, lost.id);
    pending.cancel();
}

/// The second answer for an ask changes nothing and is told who was first.
pub(crate) fn duplicate_response() {
    let askd = embedded();
    let surface = askd.surface("screen");
    let (stream, responses) = channel();
    let mut asker = askd.asker().expect("askd works");
    let handling = std::thread::spawn(move || {
        let handled = handle(&mut asker, &call(1), &stream, no_opinion).expect("askd works");
        (handled, asker)
    });
    let ask = next_ask(&surface);
    answer(&surface, &ask, Decision::Deny).expect("the first answer settles");
    for again in [Decision::Allow, Decision::Deny] {
        let refused = answer(&surface, &ask, again).expect_err("somebody was first");
        let first = refused.ask.and_then(|ask| ask.outcome).expect("it says who");
        assert_eq!((first.cause.as_str(), first.verdict), ("person", Verdict::Deny));
    }
    let (handled, mut asker) = handling.join().expect("the host's thread");
    assert_eq!(handled.written(), Some(&Response::Deny("not now".to_owned())));
    // Telling twice that it was handed over is no second delivery either.
    asker.handed(&ask.id).expect("it is known");
    let mut agent = Agent::default();
    agent.hear(&call(1), &responses);
    assert_eq!((agent.ran.len(), agent.denied.len()), (0, 1));
}

/// Duplicates are known after any number of calls, and what is held in memory does not grow with them.
pub(crate) fn many_calls(calls: u32) {
    let askd = embedded();
    let surface = askd.surface("screen");
    let mut asker = askd.asker().expect("askd works");
    let answering = std::thread::spawn(move || {
        let mut first = None;
        for _ in 0..calls {
            let ask = next_ask(&surface);
            answer(&surface, &ask, Decision::Allow).expect("each is answered once");
            first.get_or_insert(ask);
        }
        (surface, first)
    });
    let (stream, responses) = channel();
    let mut agent = Agent::default();
    let mut most = 0;
    for number in 0..calls {
        let handled = handle(&mut asker, &call(number), &stream, no_opinion).expect("askd works");
        let Handled::Written(Response::Allow(_), Some(id)) = handled else { panic!("{handled:?}") };
        agent.hear(&call(number), &responses);
        // The call was seen to end: nothing is left to be told, and the record is in the journal alone from then on.
        asker.confirmed(&id).expect("it is known");
        most = most.max(askd.held());
    }
    assert!(most <= 2, "{most} asks were held");
    let (surface, first) = answering.join().expect("the person's thread");
    let refused = answer(&surface, &first.expect("there was one"), Decision::Deny).expect_err("long ago");
    assert_eq!(refused.code, Code::AlreadySettled);
    assert!(agent.ran.values().all(|times| *times == 1) && agent.denied.is_empty());
}

/// Without any surface an ask fails closed at once: there is nobody who could be asked.
pub(crate) fn nobody_to_ask() {
    let askd = embedded();
    let (stream, _responses) = channel();
    let mut asker = askd.asker().expect("askd works");
    let handled = handle(&mut asker, &call(1), &stream, no_opinion).expect("askd works");
    assert!(matches!(handled.written(), Some(Response::Deny(_))), "{handled:?}");
}

fn main() {
    let cases: [(&str, fn()); 9] = [
        ("the parent aborts during an ask", parent_aborts_during_an_ask),
        ("the stream is closed before the response", stream_closed_before_the_response),
        ("the stream is closed during an ask", stream_closed_during_an_ask),
        ("the hook rejects or is undecided", hook_rejects_or_is_undecided),
        ("the hook decides first", hook_decides_first),
        ("a late response", late_response),
        ("a duplicate response", duplicate_response),
        ("more than a thousand calls", || many_calls(1_200)),
        ("nobody to ask", nobody_to_ask),
    ];
    for (name, case) in cases {
        case();
        println!("ok: {name}");
    }
}
