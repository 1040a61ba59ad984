//! The doom-loop gate: tells when an agent is about to run the same batch of calls for the third time in a row.
//!
//! A batch is the set of calls of one assistant message. An adapter that sees messages names the batch; without names a
//! batch is the calls that start with no end in between. The order inside a batch does not matter.

use crate::digest::Digest;
use crate::id::Hash256;
use crate::time::Stamp;

/// Equal batches in a row at which the gate closes.
pub const LOOP: u32 = 3;
/// Most calls of one batch that are compared; a larger batch is never a repetition.
const LARGEST_BATCH: usize = 256;

/// The gate of one thread of one agent. Small and bounded; lost with the process, which costs one ask and never makes a
/// wrong one.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    /// The batch before this one, sorted.
    last: Vec<Digest>,
    /// How many batches in a row were equal to `last`.
    repeats: u32,
    since: Option<Stamp>,
    /// The user prompt that is worked on, where the adapter tells.
    turn: Option<Hash256>,
    current: Current,
}

#[derive(Debug, Clone, Default)]
struct Current {
    calls: Vec<Digest>,
    name: Option<Hash256>,
    began: Option<Stamp>,
    /// A call of it has ended: without names, the next start begins a new batch.
    ended: bool,
    too_large: bool,
}

/// Where a call belongs, as far as the adapter sees it.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallPlace<'a> {
    /// The assistant message that made it.
    pub batch: Option<&'a str>,
    /// The user prompt that is worked on; another one starts the count anew.
    pub turn: Option<&'a str>,
}

/// The third equal batch is about to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeated {
    /// This one included.
    pub times: u32,
    /// When the first of them began.
    pub since: Stamp,
}

impl Gate {
    /// A call is about to run. `Some`: its batch is now equal to the two before it, ask before it runs.
    pub fn call_started(&mut self, call: Digest, place: CallPlace<'_>, now: Stamp) -> Option<Repeated> {
        // They may be long, and are only compared.
        let [batch, turn] =
            [place.batch, place.turn].map(|name| name.map(|name| Hash256::of(name.as_bytes())));
        if let (Some(turn), Some(before)) = (turn, self.turn)
            && turn != before
        {
            self.reset();
        }
        self.turn = turn.or(self.turn);
        let begins = match (batch, self.current.name) {
            (Some(name), Some(current)) => name != current,
            (Some(_), None) | (None, Some(_)) => true,
            (None, None) => self.current.ended,
        };
        if begins {
            self.close();
            self.current.name = batch;
        }
        let current = &mut self.current;
        current.began.get_or_insert(now);
        if current.calls.len() < LARGEST_BATCH {
            let at = current.calls.partition_point(|c| *c <= call);
            current.calls.insert(at, call);
        } else {
            current.too_large = true;
        }
        let again = !current.too_large && self.repeats + 1 >= LOOP && current.calls == self.last;
        again.then(|| Repeated { times: self.repeats + 1, since: self.since.unwrap_or(now) })
    }

    /// A call has ended, or was refused and will not run.
    pub fn call_ended(&mut self) {
        self.current.ended = true;
    }

    /// A new turn, or a person said that it may go on: counting begins anew.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Bytes of the calls that it compares.
    pub(crate) fn weight(&self) -> usize {
        (self.last.capacity() + self.current.calls.capacity()) * size_of::<Digest>()
    }

    fn close(&mut self) {
        let done = std::mem::take(&mut self.current);
        if done.calls.is_empty() {
            return;
        }
        if !done.too_large && done.calls == self.last {
            self.repeats += 1;
        } else {
            self.repeats = u32::from(!done.too_large);
            self.since = done.began;
            self.last = if done.too_large { Vec::new() } else { done.calls };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::BootId;

    fn at(ms: u64) -> Stamp {
        Stamp { boot: BootId(uuid::Uuid::nil()), boot_ms: ms, wall_ms: 0 }
    }

    fn call(name: &str) -> Digest {
        Digest::of(name, Some("{}"), None, "")
    }

    fn of(batch: &str) -> CallPlace<'_> {
        CallPlace { batch: Some(batch), turn: None }
    }

    /// Runs batches of calls one after the other, each call starting before any of its batch ends.
    fn run(gate: &mut Gate, batches: &[&[&str]]) -> Vec<bool> {
        let mut tripped = Vec::new();
        for batch in batches {
            let hits: Vec<_> = batch
                .iter()
                .map(|c| gate.call_started(call(c), CallPlace::default(), at(1)).is_some())
                .collect();
            batch.iter().for_each(|_| gate.call_ended());
            tripped.push(hits.contains(&true));
        }
        tripped
    }

    #[test]
    fn t8_the_third_equal_batch_trips_whatever_its_order() {
        let mut gate = Gate::default();
        assert_eq!(run(&mut gate, &[&["a"], &["a"], &["a"]]), [false, false, true]);
        let mut gate = Gate::default();
        assert_eq!(run(&mut gate, &[&["a", "b"], &["b", "a"], &["a", "b"]]), [false, false, true]);
    }

    #[test]
    fn t8_three_equal_parallel_calls_are_one_batch() {
        let mut gate = Gate::default();
        assert_eq!(run(&mut gate, &[&["a", "a", "a"]]), [false]);
        let mut gate = Gate::default();
        // Run one after the other by the agent, but of one message.
        for n in 0..3 {
            assert_eq!(gate.call_started(call("a"), of("m1"), at(n)), None);
            gate.call_ended();
        }
        assert_eq!(gate.call_started(call("a"), of("m2"), at(9)), None);
    }

    #[test]
    fn t8_any_other_batch_and_an_approval_start_anew() {
        let mut gate = Gate::default();
        assert_eq!(
            run(&mut gate, &[&["a"], &["a"], &["b"], &["a"], &["a"], &["a"]]),
            [false, false, false, false, false, true]
        );
        gate.reset();
        assert_eq!(run(&mut gate, &[&["a"], &["a"], &["a"]]), [false, false, true]);
    }

    #[test]
    fn t8_a_repetition_that_goes_on_trips_again_and_says_since_when() {
        let mut gate = Gate::default();
        for n in 1..=2 {
            assert_eq!(gate.call_started(call("a"), CallPlace::default(), at(n * 100)), None);
            gate.call_ended();
        }
        let third = gate.call_started(call("a"), CallPlace::default(), at(300));
        assert_eq!(third, Some(Repeated { times: 3, since: at(100) }));
        gate.call_ended();
        let fourth = gate.call_started(call("a"), CallPlace::default(), at(400));
        assert_eq!(fourth, Some(Repeated { times: 4, since: at(100) }));
    }

    #[test]
    fn t8_another_user_prompt_starts_anew() {
        let mut gate = Gate::default();
        for (turn, trips) in [("p1", false), ("p1", false), ("p2", false), ("p2", false), ("p2", true)] {
            let place = CallPlace { batch: None, turn: Some(turn) };
            assert_eq!(gate.call_started(call("a"), place, at(1)).is_some(), trips, "{turn}");
            gate.call_ended();
        }
    }

    #[test]
    fn a_batch_without_bounds_is_never_a_repetition() {
        let mut gate = Gate::default();
        let big: Vec<&str> = vec!["a"; LARGEST_BATCH + 1];
        // Its first part may look like the whole of an earlier one.
        assert_eq!(run(&mut gate, &[&big, &big, &big]), [false, false, false]);
    }
}
