//! Faults that the simulated world found in the writer and the core, each by itself: worlds grow, and a seed that once
//! showed a fault may not meet it any more.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use askd_core::ask::{Action, Attendance, Class, OwnPrompt, RequesterKind};
use askd_core::command::{Answer, Command, Observe, Raise, Reply, Seen};
use askd_core::event::{CallInfo, Scope, SurfaceInfo};
use askd_core::id::StreamId;
use askd_core::state::AskState;
use askd_core::{
    AskId, BootId, Decision, Hash256, Instance, LinkId, Now, OutcomeKind, Overrides, Refusal, SessionKey,
    Settings, SurfaceId,
};
use askd_journal::{Fault, Faults, HeadState, MemoryJournal, MemoryStore, Reader};
use askd_writer::{Batched, Ids, Writer};
use uuid::Uuid;

/// Entry ids that never repeat, also not over a restart.
struct Counted(u128);

impl Ids for Counted {
    fn next(&mut self) -> Uuid {
        self.0 += 1;
        Uuid::from_u128(self.0)
    }
}

struct Rig {
    writer: Writer<MemoryJournal>,
    store: MemoryStore,
    faults: Faults,
    now: Now,
    settings: Settings,
    starts: u128,
}

fn answer_of(command: &Command) -> Answer {
    match command {
        Command::Answer(answer) => answer.clone(),
        other => panic!("{other:?}"),
    }
}

impl Rig {
    fn new(settings: Settings) -> Self {
        let now = Now { boot: BootId(Uuid::from_u128(1)), boot_ms: 1_000_000, wall_ms: 1_800_000_000_000 };
        let store = MemoryStore::new();
        let (writer, faults) = Self::open(&store, &settings, now, 1);
        Self { writer, store, faults, now, settings, starts: 1 }
    }

    fn open(
        store: &MemoryStore,
        settings: &Settings,
        now: Now,
        starts: u128,
    ) -> (Writer<MemoryJournal>, Faults) {
        let journal = store.open();
        let faults = journal.faults();
        let ids = Box::new(Counted(starts << 64));
        (Writer::open(journal, settings.clone(), ids, Box::new(()), now).unwrap(), faults)
    }

    /// The process ends before the next one starts.
    fn restart(&mut self) {
        self.starts += 1;
        drop(std::mem::replace(
            &mut self.writer,
            Self::open(&MemoryStore::new(), &self.settings, self.now, 0).0,
        ));
        (self.writer, self.faults) = Self::open(&self.store, &self.settings, self.now, self.starts);
    }

    fn pass(&mut self, ms: u64) {
        self.now.boot_ms += ms;
        self.now.wall_ms += i64::try_from(ms).unwrap();
    }

    fn batch(&mut self, commands: &[Command]) -> Batched {
        self.writer.run(commands, self.now).unwrap()
    }

    fn run(&mut self, command: Command) -> Result<Reply, Refusal> {
        self.batch(&[command]).replies.remove(0)
    }

    fn raise(&mut self, raise: Raise) -> AskId {
        match self.run(Command::Raise(Box::new(raise))) {
            Ok(Reply::Raised(id) | Reply::Reattached(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    fn see(&mut self, session: &str, seen: Seen) {
        self.run(observe(session, None, None, seen)).unwrap();
    }

    fn ask(&self, id: AskId) -> &AskState {
        self.writer.state().ask(id).unwrap()
    }

    fn allow(&self, id: AskId) -> Command {
        Command::Answer(Answer {
            ask: id,
            digest: self.ask(id).ask.digest,
            decision: Decision::Allow,
            option: None,
            message: None,
            stop: false,
            surface: "terminal".to_owned(),
            remote: false,
            by: None,
            refused: None,
        })
    }

    fn head(&self, id: AskId) -> HeadState {
        self.store.open().head(&StreamId::Ask(id)).unwrap().unwrap().1.state
    }
}

fn rig() -> Rig {
    Rig::new(Settings::default())
}

fn session(name: &str) -> SessionKey {
    SessionKey { agent: "agent".to_owned(), session: name.to_owned() }
}

fn instance(pid: u32) -> Instance {
    Instance { host: "here".to_owned(), pid, start: 1 }
}

/// An ask of a library client, in session `s`; id, key, token and link are the number's.
fn raise(n: u32) -> Raise {
    Raise {
        id: AskId(Uuid::from_u128(u128::from(n) + (7 << 76))),
        key: format!("k{n}"),
        token: Hash256::of(&n.to_be_bytes()),
        link: LinkId(u64::from(n)),
        kind: RequesterKind::Library,
        action: action(),
        class: Class::Tool,
        attendance: None,
        session: session("s"),
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

fn hook(n: u32) -> Raise {
    Raise { kind: RequesterKind::Hook, grace_ms: 0, ..raise(n) }
}

fn action() -> Action {
    let input = Some(r#"{"command":"make"}"#.to_owned());
    Action { tool: "Bash".to_owned(), kind: None, title: None, input, cwd: None }
}

fn observe(name: &str, parent: Option<&str>, by: Option<Instance>, seen: Seen) -> Command {
    Command::Observe(Box::new(Observe {
        by: askd_core::Voice::All,
        owner: None,
        session: session(name),
        parent: parent.map(session),
        title: None,
        cwd: None,
        instance: by,
        place: None,
        seen,
    }))
}

fn call_started(call: &str) -> Seen {
    let info = CallInfo { subagent: None, tool: "Bash".to_owned(), digest: action().digest(), side: None };
    Seen::CallStarted { call: call.to_owned(), info, batch: None, turn: None, spawn: None }
}

fn surface(name: &str, remote: bool) -> Command {
    let info = SurfaceInfo { name: name.to_owned(), remote, scope: Scope::All, capacity: None };
    Command::AttachSurface { surface: SurfaceId(name.to_owned()), info }
}

#[test]
fn a_batch_of_which_nobody_knew_whether_it_was_written_is_told_with_the_next_one() {
    let mut rig = rig();
    let id = rig.raise(raise(1));
    let answer = rig.allow(id);
    rig.faults.inject(Fault::UnknownWritten);
    rig.faults.break_reads(1);
    assert!(matches!(rig.run(answer), Err(Refusal::NotRecorded(_))));
    let wanted = rig.writer.poll_timeout(rig.now).expect("the journal is read again without being asked");
    assert!(wanted.0 <= 1_000, "{wanted:?}");
    let told = rig.batch(&[Command::Tick]).committed;
    assert_eq!(told.iter().map(|e| e.entry.event.name()).collect::<Vec<_>>(), ["settled"]);
    assert!(rig.batch(&[Command::Tick]).committed.is_empty(), "once");
}

const IN_DOUBT: &str = "cannot be told yet";

fn not_recorded(reply: Result<Reply, Refusal>) -> String {
    match reply {
        Err(Refusal::NotRecorded(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_crash_may_bring_back_is_not_said_to_be_lost() {
    let mut rig = rig();
    let id = rig.raise(raise(1));
    let allow = rig.allow(id);
    rig.faults.inject(Fault::UnknownUnseen { settles: usize::MAX });
    let why = not_recorded(rig.run(allow.clone()));
    assert!(why.contains(IN_DOUBT), "{why}");
    // Nothing is done meanwhile, as it might contradict that.
    let deny = Command::Answer(Answer { decision: Decision::Deny, ..answer_of(&allow) });
    for _ in 0..3 {
        let wanted = rig.writer.poll_timeout(rig.now).expect("it is looked again without being asked");
        assert!(wanted.0 <= 1_000, "{wanted:?}");
        let why = not_recorded(rig.run(deny.clone()));
        assert!(why.contains(IN_DOUBT), "{why}");
        assert!(rig.ask(id).is_open());
    }
    rig.restart();
    assert_eq!(rig.ask(id).outcome.as_ref().map(|o| o.kind), Some(OutcomeKind::Allowed));
}

#[test]
fn what_is_said_to_be_lost_does_not_come_back() {
    // Settled at once, or after the doubt was told.
    for settles in [0, 1, 3] {
        let mut rig = rig();
        let id = rig.raise(raise(1));
        let allow = rig.allow(id);
        rig.faults.inject(Fault::UnknownUnseen { settles });
        let why = not_recorded(rig.run(allow));
        assert_eq!(why.contains(IN_DOUBT), settles > 0, "{why}");
        for _ in 1..settles {
            assert!(not_recorded(rig.run(Command::Tick)).contains(IN_DOUBT));
        }
        rig.run(Command::Tick).unwrap();
        rig.restart();
        assert!(rig.ask(id).is_open(), "{settles}");
    }
}

#[test]
fn a_requester_that_holds_on_stays_attached_when_the_journal_cannot_be_read_back() {
    let mut rig = rig();
    let id = rig.raise(hook(1));
    rig.faults.inject(Fault::Full);
    rig.faults.break_reads(1);
    let shown = Command::Shown { ask: id, surface: "a".to_owned(), remote: false };
    assert!(matches!(rig.run(shown), Err(Refusal::NotRecorded(_))));
    rig.run(Command::Tick).unwrap();
    assert!(rig.ask(id).is_attached());
}

#[test]
fn a_finished_ask_is_closed_although_its_head_could_not_be_read_or_written_at_first() {
    let mut rig = rig();
    let id = rig.raise(raise(1));
    rig.run(rig.allow(id)).unwrap();
    rig.run(Command::Handed { ask: id, token: raise(1).token }).unwrap();
    rig.faults.break_reads(1);
    rig.run(Command::LinkClosed { link: LinkId(1) }).unwrap();
    assert!(rig.writer.state().ask(id).is_none(), "nothing is left to do");
    rig.faults.inject(Fault::Full);
    rig.writer.flush().unwrap_err();
    rig.writer.flush().unwrap();
    assert_eq!(rig.head(id), HeadState::Closed);
}

#[test]
fn a_batch_that_failed_leaves_links_as_they_were() {
    let mut rig = rig();
    rig.run(surface("a", false)).unwrap();
    let own_prompt = Some(OwnPrompt { at: "terminal".to_owned(), blocked: true });
    let id = rig.raise(Raise { own_prompt, ..hook(1) });
    assert!(rig.ask(id).is_attached());
    rig.faults.inject(Fault::Full);
    let leave = Command::DetachSurface { surface: SurfaceId("a".to_owned()) };
    assert!(matches!(rig.run(leave), Err(Refusal::NotRecorded(_))));
    assert!(rig.ask(id).is_attached());
}

#[test]
fn t10_a_poll_that_was_not_recorded_does_not_end_the_wait_for_remote_surfaces() {
    let mut rig = Rig::new(Settings { remotes: 1, ..Settings::default() });
    rig.run(surface("chat", true)).unwrap();
    let background = Some(Attendance::Background);
    let id = rig.raise(Raise { attendance: background, deadline_ms: Some(1_000), ..raise(1) });
    rig.pass(60_000);
    rig.run(Command::Woke).unwrap();
    rig.faults.inject(Fault::Full);
    let polled = Command::RemotePolled { surface: SurfaceId("chat".to_owned()) };
    let batched = rig.batch(&[rig.allow(id), polled]);
    assert!(batched.replies.iter().all(Result::is_err), "{:?}", batched.replies);
    rig.run(Command::Tick).unwrap();
    assert!(rig.ask(id).is_open(), "the answer from before comes first");
    rig.run(rig.allow(id)).unwrap();
}

#[test]
fn t10_a_wait_for_remote_surfaces_that_is_on_stays_on() {
    let mut rig = rig();
    rig.run(surface("chat", true)).unwrap();
    rig.run(Command::Woke).unwrap();
    rig.run(Command::DetachSurface { surface: SurfaceId("chat".to_owned()) }).unwrap();
    rig.run(Command::Woke).unwrap();
    assert!(rig.writer.state().waits_for_remotes(rig.now));
    rig.pass(10_000);
    assert!(!rig.writer.state().waits_for_remotes(rig.now));
}

#[test]
fn a_resumed_agent_asks_under_the_key_of_its_predecessor_and_keeps_what_is_its_own() {
    let mut rig = rig();
    let first = rig.raise(Raise { instance: Some(instance(1)), ..raise(9) });
    let again =
        || Raise { key: "k9".to_owned(), token: raise(9).token, instance: Some(instance(2)), ..raise(2) };
    // Its id is lower, as after a step of the wall clock.
    let second = rig.raise(again());
    assert_ne!(first, second);
    let reply = rig.run(Command::Raise(Box::new(Raise { id: raise(3).id, link: LinkId(20), ..again() })));
    assert_eq!(reply, Ok(Reply::Reattached(second)));
}

#[test]
fn a6_a_cancel_passes_through_a_session_that_ended_before_a_restart() {
    let mut rig = rig();
    for (name, parent, pid) in [("top", None, 1), ("middle", Some("top"), 2), ("bottom", Some("middle"), 3)] {
        rig.run(observe(name, parent, Some(instance(pid)), Seen::SessionStarted)).unwrap();
    }
    let id = rig.raise(Raise { session: session("bottom"), instance: Some(instance(3)), ..raise(1) });
    rig.run(Command::AgentGone { instance: instance(2) }).unwrap();
    rig.restart();
    assert!(rig.ask(id).is_open());
    let batched =
        rig.batch(&[observe("top", None, Some(instance(1)), Seen::TurnCancelled { subagent: None })]);
    let names: Vec<_> = batched.committed.iter().map(|e| e.entry.event.name()).collect();
    assert!(names.contains(&"withdrawn"), "{names:?}");
}

#[test]
fn a_request_read_late_from_a_replaced_connection_takes_nothing_over() {
    let mut rig = rig();
    let id = rig.raise(Raise { link: LinkId(2), ..raise(1) });
    let late = Raise { id: raise(5).id, link: LinkId(1), ..raise(1) };
    assert_eq!(rig.run(Command::Raise(Box::new(late))), Ok(Reply::Reattached(id)));
    rig.run(Command::LinkClosed { link: LinkId(1) }).unwrap();
    assert!(rig.ask(id).is_attached());
}

#[test]
fn c5_an_outcome_that_may_have_served_its_call_serves_no_other() {
    let mut rig = rig();
    rig.see("s", call_started("c1"));
    let first = rig.raise(hook(1));
    rig.run(rig.allow(first)).unwrap();
    // It printed the decision and was gone before it could say so.
    rig.run(Command::LinkClosed { link: LinkId(1) }).unwrap();
    rig.see("s", call_started("c2"));
    let second = rig.raise(hook(2));
    assert_eq!(rig.ask(second).call(), Some("c2"));
    assert!(rig.ask(second).is_open(), "one answer, one call");
}

#[test]
fn c2_an_outcome_that_never_arrived_serves_the_call_of_a_resumed_agent() {
    let mut rig = rig();
    rig.see("s", call_started("c1"));
    let first = rig.raise(Raise { instance: Some(instance(1)), ..hook(1) });
    rig.run(rig.allow(first)).unwrap();
    rig.run(Command::AgentGone { instance: instance(1) }).unwrap();
    rig.see("s", call_started("c2"));
    let batched = rig.batch(&[Command::Raise(Box::new(Raise { instance: Some(instance(2)), ..hook(2) }))]);
    let names: Vec<_> = batched.committed.iter().map(|e| e.entry.event.name()).collect();
    assert!(names.contains(&"late_used"), "{names:?}");
}

#[test]
fn an_ask_that_was_never_recorded_has_not_used_its_call_up() {
    let mut rig = rig();
    rig.see("s", call_started("c1"));
    rig.faults.inject(Fault::Full);
    let refused = rig.run(Command::Raise(Box::new(hook(1))));
    assert!(matches!(refused, Err(Refusal::NotRecorded(_))));
    let id = rig.raise(Raise { id: raise(2).id, ..hook(1) });
    assert_eq!(rig.ask(id).call(), Some("c1"));
}

#[test]
fn a_requester_that_was_lost_and_asks_again_is_about_the_same_call() {
    let mut rig = rig();
    rig.see("s", call_started("c1"));
    let first = rig.raise(hook(1));
    assert_eq!(rig.ask(first).call(), Some("c1"));
    rig.run(Command::LinkClosed { link: LinkId(1) }).unwrap();
    rig.see("s", call_started("c2"));
    let again = rig.raise(Raise { id: raise(2).id, link: LinkId(2), ..hook(1) });
    assert_ne!(first, again);
    assert_eq!(rig.ask(again).call(), Some("c1"));
}

#[test]
fn a_stepped_clock_moves_no_limit_of_an_ask_that_is_read_again() {
    let mut rig = rig();
    let id = rig.raise(Raise { gives_up_ms: Some(600_000), ..raise(1) });
    rig.now = Now { boot: BootId(Uuid::from_u128(2)), boot_ms: 5_000, wall_ms: rig.now.wall_ms + 5_000 };
    rig.restart();
    rig.raise(Raise { id: raise(2).id, ..raise(1) });
    rig.now.wall_ms += 3_600_000;
    rig.pass(10);
    rig.faults.inject(Fault::Full);
    let shown = Command::Shown { ask: id, surface: "a".to_owned(), remote: false };
    assert!(matches!(rig.run(shown), Err(Refusal::NotRecorded(_))));
    rig.run(Command::Tick).unwrap();
    assert!(rig.writer.state().ask(id).is_some_and(AskState::is_open));
}

#[test]
fn t7_overrides_that_were_not_recorded_are_not_in_force() {
    for name in [None, Some("s")] {
        let mut rig = rig();
        rig.see("s", Seen::SessionStarted);
        let set = |skip| Command::SetOverrides {
            session: name.map(session),
            overrides: Overrides { skip: Some(skip), ..Overrides::default() },
            by: "a person".to_owned(),
        };
        rig.run(set(false)).unwrap();
        // In one batch with something that has to be written, as overrides for all are only kept in memory.
        let asks = Command::Raise(Box::new(raise(1)));
        rig.faults.inject(Fault::Full);
        let replies = rig.batch(&[asks, set(true)]).replies;
        assert!(replies.iter().all(|r| matches!(r, Err(Refusal::NotRecorded(_)))), "{replies:?}");
        let id = rig.raise(raise(2));
        assert!(rig.ask(id).is_open(), "{name:?}: nobody let it skip");
        assert!(!rig.writer.state().settings_for(&session("s")).skip);
        rig.run(set(true)).unwrap();
        assert!(rig.writer.state().settings_for(&session("s")).skip);
    }
}
