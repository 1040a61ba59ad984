//! The doom-loop gate for hosts: tells when an agent is about to repeat itself for the third time, asks whether it may
//! go on, and says which of four results it was. It runs no call and stops no turn; the host does.
//!
//! A host feeds it every batch of calls, one batch for each message of the model, before any of the calls runs.
//! Read [`DoomLoop`] first.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use askd_core::gate::{CallPlace, Gate};
use askd_core::{Digest, Stamp};
use askd_wire::{Action, Ask, AskState, Choice, ChoiceKind, Class, RaiseAsk, Verdict};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::asker::{Asker, JustWait, Watch, random_hex};
use crate::error::{CallError, Unavailable};

/// Name of the action in the ask.
const TOOL: &str = "doom_loop";
/// Threads that are counted at once. One more, and the one that was silent for longest is counted anew: an ask fewer,
/// never a wrong one.
const MOST_THREADS: usize = 1024;

/// Counts the batches of each thread of one agent, and asks at the third equal one in a row.
///
/// A thread is whatever has its own line of messages: the main conversation, each subagent, each job. Its name is the
/// host's own. Two batches are equal when they hold the same calls, in any order; a call is its tool and its input,
/// where key order and spacing of the JSON do not matter. Any other batch, an approval and [`DoomLoop::new_turn`] begin
/// anew. Equal calls within one batch are no repetition.
///
/// ```no_run
/// use askd_client::{Asker, Call, DoomLoop, LoopResult, Places};
/// # fn template() -> askd_wire::RaiseAsk { unimplemented!() }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut asker = Asker::connect(Places::from_env()?)?;
/// let mut gate = DoomLoop::new();
/// let calls = [Call { tool: "Bash", input: r#"{"command":"make test"}"# }];
/// if let Some(seen) = gate.batch("main", &calls) {
///     match gate.ask(&mut asker, &seen, template())? {
///         Some(LoopResult::Approved) => {}
///         // Stop the turn, and tell the model why.
///         Some(no) => println!("stopped: {}", no.reason()),
///         // The turn is over already.
///         None => {}
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct DoomLoop {
    threads: BTreeMap<String, Thread>,
    /// Counts batches: names each of them, and tells which thread was silent for longest.
    batches: u64,
}

#[derive(Debug, Default)]
struct Thread {
    gate: Gate,
    last: u64,
}

/// One tool call of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    pub tool: &'a str,
    /// The input, the JSON text as the model wrote it. What is no JSON is compared and shown as it is.
    pub input: &'a str,
}

/// A batch that is about to run for the third time in a row, or more.
#[derive(Debug, Clone)]
pub struct Repetition {
    thread: String,
    calls: Vec<(String, Box<RawValue>)>,
    times: u32,
    since: String,
}

impl Repetition {
    /// How often the batch was made in a row, this time included: 3 or more.
    pub fn times(&self) -> u32 {
        self.times
    }

    /// When the first of them was made, as RFC 3339 in UTC.
    pub fn since(&self) -> &str {
        &self.since
    }

    pub fn thread(&self) -> &str {
        &self.thread
    }
}

/// What came of the ask. Every result but the first means: run none of the calls and stop the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoopResult {
    /// It may go on; counting begins anew. A person said so, or `safety_default = "allow"` did at the deadline.
    Approved,
    /// A person said no, with these words.
    Declined { message: Option<String> },
    /// Nobody answered before the deadline. Nobody said no either.
    TimedOut,
    /// There is nobody who could be asked.
    Unreachable,
}

impl LoopResult {
    /// True words for the model.
    pub fn reason(&self) -> String {
        match self {
            Self::Approved => "it may continue".to_owned(),
            Self::Declined { message } => {
                let declined = "the user declined to let it continue";
                match message.as_deref().map(str::trim).filter(|words| !words.is_empty()) {
                    Some(words) => format!("{declined}: {words}"),
                    None => declined.to_owned(),
                }
            }
            Self::TimedOut => "no answer arrived before the deadline".to_owned(),
            Self::Unreachable => "this context has no way to ask for confirmation".to_owned(),
        }
    }
}

/// Input of the action: what a person has to know.
#[derive(Serialize)]
struct Input<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    repeated_call: Option<Shown<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    repeated_calls: Vec<Shown<'a>>,
    times: u32,
    since: &'a str,
}

#[derive(Serialize)]
struct Shown<'a> {
    tool: &'a str,
    input: &'a RawValue,
}

impl DoomLoop {
    pub fn new() -> Self {
        Self::default()
    }

    /// All calls of one message of the model, told before the first of them runs. `Some`: this batch is equal to the two
    /// before it; ask, and run nothing of it until then. A batch without calls counts for nothing.
    pub fn batch(&mut self, thread: &str, calls: &[Call<'_>]) -> Option<Repetition> {
        self.batches += 1;
        let name = self.batches.to_string();
        let place = CallPlace { batch: Some(&name), turn: None };
        let now = now();
        let of = self.thread(thread);
        let mut repeated = None;
        for call in calls {
            // The last call says it of the whole batch; one before it only of a part.
            repeated = of.gate.call_started(Digest::of(call.tool, Some(call.input), None, ""), place, now);
        }
        repeated.map(|repeated| Repetition {
            thread: thread.to_owned(),
            calls: calls.iter().map(|call| (call.tool.to_owned(), json(call.input))).collect(),
            times: repeated.times,
            since: rfc3339(repeated.since.wall_ms),
        })
    }

    /// The person gave the thread something new to do: counting begins anew.
    pub fn new_turn(&mut self, thread: &str) {
        self.forget(thread);
    }

    /// The thread has ended.
    pub fn forget(&mut self, thread: &str) {
        self.threads.remove(thread);
    }

    /// Asks and waits, as long as it takes. `like` is an ask as the host would raise it for a call of this thread: who
    /// asks, attendance, the person's turn; its key, action, class and options are replaced. In the background
    /// (`attendance`) the safety timeout applies, and `deadline_secs` where it is set; in the foreground nothing ends the
    /// wait but an answer.
    ///
    /// `None`: the ask was withdrawn (the turn was cancelled, the session ended), so there is nothing left to stop.
    /// An error is no decision: the host does what it does without askd.
    pub fn ask(
        &mut self,
        asker: &mut Asker,
        seen: &Repetition,
        like: RaiseAsk,
    ) -> Result<Option<LoopResult>, Unavailable> {
        self.ask_watched(asker, seen, like, &mut JustWait)
    }

    /// The same, waiting by `watch`, for a host that has to stop waiting when its turn is cancelled.
    pub fn ask_watched(
        &mut self,
        asker: &mut Asker,
        seen: &Repetition,
        like: RaiseAsk,
        watch: &mut dyn Watch,
    ) -> Result<Option<LoopResult>, Unavailable> {
        let raise = raise(seen, like)?;
        let ask = asker.ask_watched(&raise, watch)?;
        let result = result(&ask, &raise)?;
        if result == Some(LoopResult::Approved) {
            self.forget(&seen.thread);
        }
        if result.is_some() {
            // It counts whether or not the daemon hears that it arrived; the log says "handed" when it does.
            let _ = asker.handed(&ask.id);
        }
        Ok(result)
    }

    fn thread(&mut self, name: &str) -> &mut Thread {
        if !self.threads.contains_key(name) && self.threads.len() >= MOST_THREADS {
            let silent =
                self.threads.iter().min_by_key(|(_, thread)| thread.last).map(|(name, _)| name.clone());
            silent.map(|name| self.threads.remove(&name));
        }
        let thread = self.threads.entry(name.to_owned()).or_default();
        thread.last = self.batches;
        thread
    }
}

/// The safety ask for a repetition.
fn raise(seen: &Repetition, like: RaiseAsk) -> Result<RaiseAsk, Unavailable> {
    let mut shown: Vec<_> = seen.calls.iter().map(|(tool, input)| Shown { tool, input }).collect();
    let title = match &*seen.calls {
        [(tool, _)] => format!("{tool} with the same input {} times in a row", seen.times),
        calls => format!("the same {} calls {} times in a row", calls.len(), seen.times),
    };
    let input = Input {
        repeated_call: if shown.len() == 1 { shown.pop() } else { None },
        repeated_calls: shown,
        times: seen.times,
        since: &seen.since,
    };
    let key = random_hex().map_err(|error| Unavailable::Fault(format!("no random bits: {error}")))?;
    Ok(RaiseAsk {
        key: format!("{TOOL}-{key}"),
        action: Action {
            tool: TOOL.to_owned(),
            kind: None,
            title: Some(title),
            input: Some(to_raw_value(&input).map_err(CallError::Encode)?),
            cwd: like.action.cwd,
        },
        class: Class::Safety,
        options: vec![
            Choice::plain("allow_once", "Let it continue", ChoiceKind::AllowOnce),
            Choice::plain("reject_once", "Stop the turn", ChoiceKind::RejectOnce),
        ],
        // A prompt of the host's own is no answer to this.
        own_prompt: None,
        needs_own_prompt: false,
        supersedes: None,
        ..like
    })
}

/// Which of the four results it was; `None`: withdrawn.
fn result(ask: &Ask, raised: &RaiseAsk) -> Result<Option<LoopResult>, Unavailable> {
    let Some(outcome) = ask.outcome.as_ref().filter(|_| ask.state == AskState::Settled) else {
        return Err(Unavailable::Released);
    };
    // An outcome for other content than was asked about is no outcome.
    let text = |input: &Option<Box<RawValue>>| input.as_deref().map(|raw| raw.get().to_owned());
    if ask.action.tool != TOOL || text(&ask.action.input) != text(&raised.action.input) {
        let why = "the daemon's outcome is for other content than was asked about";
        return Err(Unavailable::Fault(why.to_owned()));
    }
    Ok(Some(match (outcome.verdict, outcome.cause.as_str()) {
        (Verdict::None, _) => return Ok(None),
        (Verdict::Allow, _) => LoopResult::Approved,
        (Verdict::Deny, "person") => LoopResult::Declined { message: outcome.message.clone() },
        (Verdict::Deny, "timed" | "overflow" | "remote_timeout") => LoopResult::TimedOut,
        (Verdict::Deny, "unreachable") => LoopResult::Unreachable,
        (Verdict::Deny, other) => {
            return Err(Unavailable::Fault(format!("denied for a cause that is not known here: {other}")));
        }
    }))
}

/// The input as JSON; a text that is none becomes a JSON string, so that it can be shown.
fn json(input: &str) -> Box<RawValue> {
    let raw = serde_json::from_str::<&RawValue>(input).map(ToOwned::to_owned);
    raw.or_else(|_| to_raw_value(input)).unwrap_or_default()
}

fn now() -> Stamp {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Stamp::of_wall(i64::try_from(wall.as_millis()).unwrap_or(i64::MAX))
}

fn rfc3339(wall_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(wall_ms).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(input: &str) -> Call<'_> {
        Call { tool: "Bash", input }
    }

    #[test]
    fn t8_the_third_equal_batch_of_one_thread_is_a_repetition_whatever_its_order_and_spacing() {
        let (a, b) = (r#"{"command":"make","n":1}"#, r#"{ "n": 1, "command": "make" }"#);
        let other = call(r#"{"command":"ls"}"#);
        let mut gate = DoomLoop::new();
        assert!(gate.batch("main", &[call(a), other]).is_none());
        assert!(gate.batch("main", &[other, call(b)]).is_none());
        assert!(gate.batch("child", &[call(a), other]).is_none(), "another thread");
        assert!(gate.batch("main", &[]).is_none(), "a message without calls");
        // Its first call alone is no repetition, and neither is one more.
        let seen = gate.batch("main", &[call(b), other]).unwrap();
        assert_eq!((seen.times(), seen.thread()), (3, "main"));
        assert!(gate.batch("main", &[call(b), other, other]).is_none());
        assert!(gate.batch("main", &[call(b)]).is_none());
    }

    #[test]
    fn t8_three_equal_parallel_calls_are_no_repetition_for_a_host() {
        let mut gate = DoomLoop::new();
        let calls = [call("{}"); 3];
        assert!(gate.batch("main", &calls).is_none());
        assert!(gate.batch("main", &calls).is_none());
        assert!(gate.batch("main", &calls[..2]).is_none());
        assert!(gate.batch("main", &calls).is_none());
    }

    #[test]
    fn t8_a_new_turn_and_the_end_of_a_thread_begin_anew() {
        let mut gate = DoomLoop::new();
        for end in [DoomLoop::new_turn, DoomLoop::forget] {
            for _ in 0..2 {
                assert!(gate.batch("main", &[call("{}")]).is_none());
            }
            end(&mut gate, "main");
        }
        assert!(gate.batch("main", &[call("{}")]).is_none());
    }

    #[test]
    fn threads_without_end_take_no_memory_without_end_and_the_busy_one_is_kept() {
        let mut gate = DoomLoop::new();
        let mut times = 0;
        for number in 0..3 * MOST_THREADS {
            assert!(gate.batch(&number.to_string(), &[call("{}")]).is_none());
            if number % 500 == 0 {
                times = gate.batch("main", &[call("{}")]).map_or(times, |seen| seen.times());
            }
        }
        assert_eq!(gate.threads.len(), MOST_THREADS);
        assert_eq!(times, 7);
    }

    #[test]
    fn s7_input_that_is_no_json_is_counted_and_shown_as_it_is() {
        let mut gate = DoomLoop::new();
        let broken = [call("{\"a\":"), call("")];
        assert!(gate.batch("main", &broken).is_none() && gate.batch("main", &broken).is_none());
        let seen = gate.batch("main", &broken).unwrap();
        let shown: Vec<_> = seen.calls.iter().map(|(_, input)| input.get()).collect();
        assert_eq!(shown, [r#""{\"a\":""#, r#""""#]);
    }
}
