//! What the hooks remember from one event to the next of the same thread: the main thread or one subagent of a session.
//!
//! No event before a call says which message of the model made it, and Claude writes its transcript up to 100 ms late.
//! `PostToolBatch` comes once behind all calls of a message and before the next one, whatever became of the calls. So the
//! batch before names the one that runs, and three equal calls of one message are one batch however they are run.
//!
//! Two small files per thread beside the daemon's sockets; without a daemon there are none. They are gone with the
//! session. When they are lost, one repetition is not asked about.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use askd_client::{Places, make_private_directory};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::claude::event::{BatchCall, Event, is_plain_id};

/// What sessions left behind that never ended is taken away after this.
const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Where this thread's files are.
#[derive(Debug)]
pub(crate) struct Thread {
    dir: PathBuf,
    session: String,
    name: String,
}

/// The batches that have ended.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Ended {
    /// Last call of the last one: unique, so that it names the batch that follows.
    last: String,
    /// Of its calls with their inputs, whatever their order.
    signature: u64,
    /// How many in a row were equal to it.
    times: u32,
}

/// A call that was asked about because it repeats itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Repeated {
    pub(crate) call: String,
    /// Of its tool and input.
    pub(crate) signature: u64,
    /// What it does, for people.
    pub(crate) title: String,
    pub(crate) turn: Option<String>,
    pub(crate) then: Then,
}

/// What is to be done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Then {
    /// It goes on, as every other call.
    GoOn,
    /// Claude's own prompt asks.
    OwnPrompt,
    /// The turn is to stop, and why.
    Stop(String),
}

impl Thread {
    /// `None` for ids that could lead out of the directory.
    pub(crate) fn of(event: &Event<'_>, places: &Places) -> Option<Self> {
        let session = event.session_id.clone();
        let thread = match &event.agent_id {
            Some(agent) => format!("agent-{agent}"),
            None => "main".to_owned(),
        };
        let plain = is_plain_id(&session) && event.agent_id.as_deref().is_none_or(is_plain_id);
        let dir = places.run_dir().join("claude-code");
        plain.then(|| Self { dir, name: format!("{session}.{thread}"), session })
    }

    /// Name of the batch that runs now.
    pub(crate) fn running(&self) -> String {
        match self.read::<Ended>("batch") {
            Some(ended) => format!("after {}", ended.last),
            None => "first".to_owned(),
        }
    }

    /// How many of the batches that ended last were equal.
    pub(crate) fn equal_batches(&self) -> u32 {
        self.read::<Ended>("batch").map_or(0, |ended| ended.times)
    }

    /// A batch has ended. Told twice, by two installations, it counts once.
    pub(crate) fn batch_ended(&self, calls: &[BatchCall<'_>]) -> io::Result<()> {
        let Some(last) = calls.last().map(|call| call.tool_use_id.clone()) else { return Ok(()) };
        let before = self.read::<Ended>("batch").unwrap_or_default();
        if before.last == last {
            return Ok(());
        }
        let mut signatures: Vec<u64> =
            calls.iter().map(|c| signature(&c.tool_name, c.tool_input.get())).collect();
        signatures.sort_unstable();
        let signature = hash(&signatures);
        let times = if before.signature == signature { before.times.saturating_add(1) } else { 1 };
        self.write("batch", &Ended { last, signature, times })
    }

    /// Keeps what was decided about a call that repeats itself, until its batch has ended.
    pub(crate) fn remember(&self, repeated: &Repeated) -> io::Result<()> {
        self.write("loop", repeated)
    }

    pub(crate) fn repeated(&self) -> Option<Repeated> {
        self.read("loop")
    }

    pub(crate) fn forget_repeated(&self) {
        // Mostly there is none, and one that stays is for its own call only.
        let _ = fs::remove_file(self.file("loop"));
    }

    /// Nothing more comes from this thread.
    pub(crate) fn forget(&self) {
        for kind in ["batch", "loop"] {
            let _ = fs::remove_file(self.file(kind));
        }
    }

    /// Nothing more comes from this session, nor from those of long ago.
    pub(crate) fn forget_session(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        let own = format!("{}.", self.session);
        for entry in entries.flatten() {
            let is_own = entry.file_name().to_str().is_some_and(|name| name.starts_with(&own));
            let modified = entry.metadata().and_then(|meta| meta.modified());
            let age = modified.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
            if is_own || age.is_some_and(|age| age > KEPT) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.dir.join(format!("{}.{kind}", self.name))
    }

    fn read<T: DeserializeOwned>(&self, kind: &str) -> Option<T> {
        serde_json::from_slice(&fs::read(self.file(kind)).ok()?).ok()
    }

    fn write(&self, kind: &str, value: &impl Serialize) -> io::Result<()> {
        let bytes = serde_json::to_vec(value)?;
        let (file, run) = (self.file(kind), self.dir.parent().unwrap_or(Path::new("/")));
        match fs::write(&file, &bytes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && run.is_dir() => {
                make_private_directory(&self.dir).map_err(io::Error::other)?;
                fs::write(&file, &bytes)
            }
            // No daemon was ever here, so nobody counts.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}

/// Claude gives the same input in the same bytes.
pub(crate) fn signature(tool: &str, input: &str) -> u64 {
    hash(&(tool, input))
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(dir: &Path, session: &str, agent: Option<&str>) -> Option<Thread> {
        let agent = agent.map(|agent| format!(r#","agent_id":"{agent}""#)).unwrap_or_default();
        let event = format!(r#"{{"hook_event_name":"PostToolBatch","session_id":"{session}"{agent}}}"#);
        Thread::of(&Event::parse(event.as_bytes()).unwrap(), &Places::at(dir))
    }

    /// Ends a batch of calls, each `id:command`.
    fn end(thread: &Thread, calls: &[&str]) {
        let calls: Vec<_> = calls
            .iter()
            .map(|call| {
                let (id, command) = call.split_once(':').unwrap();
                format!(r#"{{"tool_name":"Bash","tool_input":{{"command":"{command}"}},"tool_use_id":"{id}","tool_response":{{"x":[1]}}}}"#)
            })
            .collect();
        let event = format!(
            r#"{{"hook_event_name":"PostToolBatch","session_id":"s","tool_calls":[{}]}}"#,
            calls.join(",")
        );
        thread.batch_ended(&Event::parse(event.as_bytes()).unwrap().tool_calls).unwrap();
    }

    #[test]
    fn t8_the_batch_before_names_the_one_that_runs_and_equal_ones_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let main = thread(dir.path(), "s", None).unwrap();
        let child = thread(dir.path(), "s", Some("a1")).unwrap();
        end(&main, &["t0:x"]);
        assert_eq!(main.running(), "first", "no daemon was ever here");

        fs::create_dir(dir.path().join("run")).unwrap();
        end(&main, &["t1:x", "t2:y"]);
        assert_eq!((main.running(), main.equal_batches()), ("after t2".to_owned(), 1));
        assert_eq!((child.running(), child.equal_batches()), ("first".to_owned(), 0));
        // In another order, and told twice.
        end(&main, &["t3:y", "t4:x"]);
        end(&main, &["t3:y", "t4:x"]);
        assert_eq!((main.running(), main.equal_batches()), ("after t4".to_owned(), 2));
        end(&main, &["t5:x"]);
        assert_eq!(main.equal_batches(), 1);
        end(&main, &[]);
        assert_eq!(main.running(), "after t5");
    }

    #[test]
    fn what_a_session_left_is_taken_away_with_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("run")).unwrap();
        let threads =
            [("s", None), ("s", Some("a1")), ("s2", None)].map(|(s, a)| thread(dir.path(), s, a).unwrap());
        for thread in &threads {
            end(thread, &["t1:x"]);
            let then = Then::Stop("why".to_owned());
            let repeated =
                Repeated { call: "t".to_owned(), signature: 7, title: "T".to_owned(), turn: None, then };
            thread.remember(&repeated).unwrap();
            assert_eq!(thread.repeated(), Some(repeated));
        }
        threads[1].forget();
        let left = || fs::read_dir(dir.path().join("run/claude-code")).unwrap().count();
        assert_eq!(left(), 4);
        threads[0].forget_session();
        assert_eq!((left(), threads[2].equal_batches()), (2, 1));
        for (session, agent) in [("../s", None), ("s", Some("../a")), ("", None)] {
            assert!(thread(dir.path(), session, agent).is_none());
        }
    }
}
