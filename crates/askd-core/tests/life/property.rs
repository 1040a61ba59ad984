//! Everything that can happen, in any order, against the reference; and what must hold whatever happens.

mod check;
mod run;

use askd_core::{Cause, Decision, Settings};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use run::Run;

/// Numbers are resolved when the step is taken: an ask is counted from the newest, modulo how many there are.
#[derive(Debug, Clone)]
pub enum Transition {
    Raise(Spec),
    /// The same requester asks again, or one that differs in one thing.
    Again {
        ask: usize,
        other: Other,
    },
    Answer {
        ask: usize,
        how: How,
        surface: u8,
        stop: bool,
    },
    Withdraw {
        ask: usize,
        cause: Cause,
        own: bool,
    },
    Dismiss(usize),
    Handed {
        ask: usize,
        own: bool,
    },
    Confirmed {
        ask: usize,
        own: bool,
    },
    Refused {
        ask: usize,
        own: bool,
    },
    /// The requester's own side decided.
    Decided {
        ask: usize,
        decision: Decision,
        went_on: bool,
        own: bool,
    },
    /// Its requester was told what became of it.
    Heard(usize),
    LinkClosed(usize),
    CallStarted {
        thread: usize,
        digest: u8,
    },
    CallEnded(usize),
    OwnPrompt {
        ask: usize,
        allowed: bool,
    },
    SubagentStarted(usize),
    SubagentEnded(usize),
    TurnCancelled {
        thread: usize,
        whole: bool,
    },
    TurnEnded(usize),
    SessionStarted(usize),
    SessionEnded(usize),
    /// What is seen, told by the requester of one ask; `session`: by what speaks for the session, and for no process.
    By {
        ask: usize,
        session: bool,
        what: Box<Self>,
    },
    AgentGone(u8),
    Attach {
        surface: u8,
        remote: bool,
    },
    Detach(u8),
    Shown {
        ask: usize,
        surface: u8,
    },
    SurfaceFailed {
        ask: usize,
        surface: u8,
    },
    RemotePolled(u8),
    Revoke(usize),
    Stopping,
    /// The shell wakes when it is told to.
    Pass(u64),
    /// The shell is late: what is due waits until the next step was taken.
    Stall(u64),
    StepWall(i64),
    Suspend(u64),
    Restart,
    Reboot(u64),
}

#[derive(Debug, Clone)]
pub struct Spec {
    pub key: u8,
    pub token: u8,
    pub digest: u8,
    pub thread: usize,
    pub background_ms: Option<Option<u64>>,
    pub gives_up_ms: Option<u64>,
    pub grace_ms: u64,
    pub hook: bool,
    pub own_prompt: bool,
    pub needs_own_prompt: bool,
    pub safety: bool,
    pub many_options: bool,
    pub call: CallGiven,
    pub turn: Option<u8>,
    pub instance: Option<u8>,
    pub supersedes: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
pub enum CallGiven {
    No,
    Fresh,
    OfAnotherAsk,
}

#[derive(Debug, Clone, Copy)]
pub enum Other {
    Nothing,
    Token,
    Digest,
    Instance,
    Key,
}

#[derive(Debug, Clone, Copy)]
pub enum How {
    Plain(Decision),
    /// An option by its place among all that are offered.
    Option(usize),
    UnknownOption(Decision),
    OptionOfTheOther(Decision),
    WrongDigest(Decision),
    FromTheAgent(Decision),
}

fn decision() -> impl Strategy<Value = Decision> {
    prop_oneof![Just(Decision::Allow), Just(Decision::Deny)]
}

/// Mostly one of the newest few.
fn which() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..3usize, 1 => 0..30usize]
}

fn span() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0u64),
        Just(1),
        Just(999),
        Just(5_000),
        Just(10_000),
        Just(30_000),
        Just(59_999),
        Just(60_000),
        Just(120_000),
        Just(360_000),
        1..400_000u64,
    ]
}

fn spec() -> impl Strategy<Value = Spec> {
    let who = (0..3u8, 0..3u8, 0..2u8, 0..6usize, any::<bool>());
    let when = (
        proptest::option::of(proptest::option::weighted(
            0.7,
            prop_oneof![Just(60_000u64), Just(5_000), 1..200_000u64],
        )),
        proptest::option::weighted(0.3, prop_oneof![Just(60_000u64), 1..200_000u64]),
        prop_oneof![Just(0u64), Just(5_000), Just(60_000)],
    );
    let what = (any::<bool>(), proptest::bool::weighted(0.1), proptest::bool::weighted(0.2), any::<bool>());
    let call = prop_oneof![Just(CallGiven::No), Just(CallGiven::Fresh), Just(CallGiven::OfAnotherAsk)];
    let more = (
        call,
        proptest::option::weighted(0.3, 0..2u8),
        proptest::option::weighted(0.5, 0..3u8),
        proptest::option::weighted(0.1, which()),
    );
    (who, when, what, more).prop_map(|(who, when, what, more)| Spec {
        key: who.0,
        token: who.1,
        digest: who.2,
        thread: who.3,
        hook: who.4,
        background_ms: when.0,
        gives_up_ms: when.1,
        grace_ms: when.2,
        own_prompt: what.0,
        needs_own_prompt: what.1,
        safety: what.2,
        many_options: what.3,
        call: more.0,
        turn: more.1,
        instance: more.2,
        supersedes: more.3,
    })
}

fn how() -> impl Strategy<Value = How> {
    prop_oneof![
        8 => decision().prop_map(How::Plain),
        4 => (0..5usize).prop_map(How::Option),
        1 => decision().prop_map(How::UnknownOption),
        1 => decision().prop_map(How::OptionOfTheOther),
        1 => decision().prop_map(How::WrongDigest),
        1 => decision().prop_map(How::FromTheAgent),
    ]
}

fn cause() -> impl Strategy<Value = Cause> {
    prop_oneof![
        Just(Cause::Cancelled),
        Just(Cause::SessionEnded),
        Just(Cause::Superseded),
        Just(Cause::RequesterGone),
        Just(Cause::RequesterLimit),
        Just(Cause::HandedBack),
    ]
}

fn transition() -> impl Strategy<Value = Transition> {
    use Transition as T;
    let other = prop_oneof![6 => Just(Other::Nothing), 1 => Just(Other::Token), 1 => Just(Other::Digest), 1 => Just(Other::Instance), 4 => Just(Other::Key)];
    let own = || proptest::bool::weighted(0.9);
    let thread = || 0..6usize;
    let people = prop_oneof![
        12 => (which(), how(), 0..4u8, any::<bool>()).prop_map(|(ask, how, surface, stop)| T::Answer { ask, how, surface, stop }),
        1 => which().prop_map(T::Dismiss),
        1 => which().prop_map(T::Revoke),
        1 => (0..3u8, any::<bool>()).prop_map(|(surface, remote)| T::Attach { surface, remote }),
        1 => (0..3u8).prop_map(T::Detach),
        1 => (which(), 0..3u8).prop_map(|(ask, surface)| T::Shown { ask, surface }),
        1 => (which(), 0..3u8).prop_map(|(ask, surface)| T::SurfaceFailed { ask, surface }),
        1 => (0..3u8).prop_map(T::RemotePolled),
    ];
    let requester = prop_oneof![
        10 => spec().prop_map(T::Raise),
        8 => (which(), other).prop_map(|(ask, other)| T::Again { ask, other }),
        6 => which().prop_map(T::LinkClosed),
        2 => which().prop_map(T::Heard),
        3 => (which(), cause(), own()).prop_map(|(ask, cause, own)| T::Withdraw { ask, cause, own }),
        4 => (which(), own()).prop_map(|(ask, own)| T::Handed { ask, own }),
        2 => (which(), own()).prop_map(|(ask, own)| T::Confirmed { ask, own }),
        1 => (which(), own()).prop_map(|(ask, own)| T::Refused { ask, own }),
        3 => (which(), decision(), any::<bool>(), own())
            .prop_map(|(ask, decision, went_on, own)| T::Decided { ask, decision, went_on, own }),
    ];
    let seen = prop_oneof![
        3 => (thread(), 0..2u8).prop_map(|(thread, digest)| T::CallStarted { thread, digest }),
        4 => which().prop_map(T::CallEnded),
        2 => (which(), any::<bool>()).prop_map(|(ask, allowed)| T::OwnPrompt { ask, allowed }),
        2 => thread().prop_map(T::SubagentStarted),
        1 => thread().prop_map(T::SubagentEnded),
        2 => (thread(), any::<bool>()).prop_map(|(thread, whole)| T::TurnCancelled { thread, whole }),
        1 => thread().prop_map(T::TurnEnded),
        1 => thread().prop_map(T::SessionStarted),
        1 => thread().prop_map(T::SessionEnded),
    ];
    let seen = seen.boxed();
    let agent = prop_oneof![
        16 => seen.clone(),
        6 => (which(), any::<bool>(), seen)
            .prop_map(|(ask, session, what)| T::By { ask, session, what: Box::new(what) }),
        1 => (0..3u8).prop_map(T::AgentGone),
    ];
    let world = prop_oneof![
        6 => span().prop_map(T::Pass),
        4 => span().prop_map(T::Stall),
        1 => prop_oneof![Just(-28_800_000i64), Just(28_800_000)].prop_map(T::StepWall),
        2 => span().prop_map(T::Suspend),
        2 => Just(T::Restart),
        1 => span().prop_map(T::Reboot),
        1 => Just(T::Stopping),
    ];
    prop_oneof![5 => people, 8 => requester, 4 => agent, 4 => world]
}

fn settings() -> impl Strategy<Value = Settings> {
    let silence = (prop_oneof![2 => Just(0u64), 1 => Just(45_000)], decision());
    let most = (
        prop_oneof![3 => Just(10_000usize), 1 => Just(2)],
        prop_oneof![3 => Just(50_000usize), 1 => Just(6)],
    );
    (decision(), decision(), any::<bool>(), 0..2u32, silence, most).prop_map(
        |(tool, safety, set, remotes, silence, most)| Settings {
            max_open_per_session: most.0,
            max_held: most.1,
            queue_cap: 0,
            remote_timeout_ms: silence.0,
            remote_action: silence.1,
            background_default: tool,
            background_timeout_ms: 120_000,
            safety_default: safety,
            safety_timeout_ms: 90_000,
            background_timeout_is_set: set,
            safety_timeout_is_set: set,
            remotes,
            ..Settings::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        // PROPTEST_CASES asks for more.
        cases: ProptestConfig::default().cases.max(3_000),
        max_shrink_iters: 50_000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("proptest-regressions/life.txt"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn c5_c6_c8_whatever_happens_every_ask_goes_as_the_reference_says(
        settings in settings(),
        steps in proptest::collection::vec(transition(), 1..60),
    ) {
        let mut run = Run::new(settings);
        for step in &steps {
            run.take(step);
        }
        run.end();
    }
}
