//! What was typed: lines, each with the moment it began, and the words they are made of.

use std::io;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Longest line that is read.
const MOST_LINE: usize = 1024 * 1024;

/// A line, and how many asks had been drawn when its first byte came. In a terminal that reads whole lines that is when
/// its last one came; a handle that nobody could have seen then is refused all the same.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// None when it was too long or not UTF-8.
    pub(super) text: Option<String>,
    pub(super) began: u64,
}

/// Standard input, read as far as something is there.
#[derive(Debug, Default)]
pub(super) struct Input {
    held: Vec<u8>,
    began: u64,
    too_long: bool,
    ready: Vec<Line>,
    ended: bool,
}

impl Input {
    /// Reads what waits, without waiting. `drawn`: asks drawn so far.
    pub(super) fn fill(&mut self, drawn: u64) -> io::Result<()> {
        let stdin = io::stdin();
        while !self.ended && readable(&stdin)? {
            let mut buffer = [0; 16 * 1024];
            match rustix::io::read(&stdin, &mut buffer) {
                Ok(0) => {
                    self.ended = true;
                    // A last line without its end was not finished: it answers nothing.
                    self.held.clear();
                }
                Ok(count) => self.take(&buffer[..count], drawn),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                // A terminal that hung up is an end like any other.
                Err(rustix::io::Errno::IO) => self.ended = true,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8], drawn: u64) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.held.is_empty() && !self.too_long {
                self.began = drawn;
            }
            let (text, whole) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            if self.held.len() + text.len() > MOST_LINE {
                self.too_long = true;
                self.held.clear();
            }
            if !self.too_long {
                self.held.extend_from_slice(text);
            }
            if whole {
                let line = std::mem::take(&mut self.held);
                let text = if self.too_long { None } else { String::from_utf8(line).ok() };
                self.too_long = false;
                self.ready.push(Line { text, began: self.began });
            }
        }
    }

    /// The lines that are whole.
    pub(super) fn lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.ready)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }
}

fn readable(fd: &impl AsFd) -> io::Result<bool> {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        let mut fds = [PollFd::new(fd, PollFlags::IN)];
        match poll(&mut fds, Some(&now)) {
            Ok(count) => return Ok(count > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// What a line says. Nothing but a plain `allow` or `deny` with a handle is an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Nothing,
    Help,
    List,
    Quit,
    Show(Vec<String>),
    Allow {
        ids: Vec<String>,
        option: Option<String>,
    },
    Deny {
        id: String,
        option: Option<String>,
        stop: bool,
        message: Option<String>,
    },
    /// A policy line as it was typed, and the session that it is for.
    Policy {
        text: String,
        session: Option<String>,
    },
    /// Why it is none of these.
    Wrong(&'static str),
}

impl Typed {
    pub(super) fn parse(line: &str) -> Self {
        let line = line.trim();
        let (first, rest) = word(line);
        let rest_words = || rest.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        match first {
            "" => Self::Nothing,
            "help" | "?" if rest.is_empty() => Self::Help,
            "ls" if rest.is_empty() => Self::List,
            "quit" | "q" | "exit" if rest.is_empty() => Self::Quit,
            "show" if !rest.is_empty() => Self::Show(rest_words()),
            "show" => Self::Wrong("name the ask: show k7f"),
            "allow" => allow(rest_words()),
            "deny" => deny(rest),
            "/permissions" | "/skip-permissions" => policy(line),
            _ => Self::Wrong("not understood; nothing was answered"),
        }
    }
}

fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (first, rest) = text.split_at(end);
    (first, rest.trim_start())
}

fn allow(words: Vec<String>) -> Typed {
    let mut ids = Vec::new();
    let mut option = None;
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--option" => match words.next() {
                Some(id) => option = Some(id),
                None => return Typed::Wrong("--option needs an option; show k7f lists them"),
            },
            flag if flag.starts_with('-') => return Typed::Wrong("allow takes handles and --option ID"),
            _ => ids.push(word),
        }
    }
    if ids.is_empty() { Typed::Wrong("name the ask: allow k7f") } else { Typed::Allow { ids, option } }
}

/// The words are the daemon's to read; only the session is taken out of them.
fn policy(line: &str) -> Typed {
    let mut session = None;
    let mut rest = Vec::new();
    let mut words = line.split_whitespace();
    while let Some(word) = words.next() {
        match (word, word.strip_prefix("--session=")) {
            ("--session", _) => match words.next() {
                Some(id) => session = Some(id.to_owned()),
                None => return Typed::Wrong("--session needs a session; `askd sessions` lists them"),
            },
            (_, Some(id)) => session = Some(id.to_owned()),
            _ => rest.push(word),
        }
    }
    Typed::Policy { text: rest.join(" "), session }
}

fn deny(rest: &str) -> Typed {
    let (id, mut rest) = word(rest);
    if id.is_empty() || id.starts_with('-') {
        return Typed::Wrong("name the ask: deny k7f, deny k7f not this folder");
    }
    let (mut option, mut stop) = (None, false);
    loop {
        let (flag, behind) = word(rest);
        match flag {
            "--stop" => stop = true,
            "--option" => {
                let (id, behind) = word(behind);
                if id.is_empty() {
                    return Typed::Wrong("--option needs an option; show k7f lists them");
                }
                option = Some(id.to_owned());
                rest = behind;
                continue;
            }
            // As the command line has it; the words follow either way.
            "-m" | "--message" => {
                rest = behind;
                break;
            }
            _ => break,
        }
        rest = behind;
    }
    let message = (!rest.is_empty()).then(|| rest.to_owned());
    Typed::Deny { id: id.to_owned(), option, stop, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(input: &mut Input) -> Vec<(Option<String>, u64)> {
        input.lines().into_iter().map(|line| (line.text, line.began)).collect()
    }

    #[test]
    fn a_line_began_with_its_first_byte() {
        let mut input = Input::default();
        input.take(b"one\nallow ", 1);
        input.take(b"k7f\nthree\n", 2);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(texts(&mut input), [(some("one"), 1), (some("allow k7f"), 1), (some("three"), 2)]);
        input.take(b"\xff\n", 3);
        assert_eq!(texts(&mut input), [(None, 3)]);
    }

    #[test]
    fn s7_an_endless_line_is_not_kept() {
        let mut input = Input::default();
        for _ in 0..40 {
            input.take(&[b'x'; 64 * 1024], 1);
        }
        assert!(input.held.len() <= MOST_LINE);
        input.take(b"\nls\n", 2);
        assert_eq!(texts(&mut input), [(None, 1), (Some("ls".to_owned()), 2)]);
    }

    #[test]
    fn words_become_commands_and_everything_else_answers_nothing() {
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        assert_eq!(Typed::parse("  "), Typed::Nothing);
        assert_eq!(Typed::parse(" help\r"), Typed::Help);
        assert_eq!(Typed::parse("show k7f q2m"), Typed::Show(ids(&["k7f", "q2m"])));
        assert_eq!(Typed::parse("allow k7f"), Typed::Allow { ids: ids(&["k7f"]), option: None });
        assert_eq!(
            Typed::parse("allow k7f --option always_1"),
            Typed::Allow { ids: ids(&["k7f"]), option: Some("always_1".to_owned()) }
        );
        for wrong in
            ["y", "n", "yes", "allow", "deny", "Allow k7f", "allow -f k7f", "deny --stop", "ls x", "no k7f"]
        {
            assert!(matches!(Typed::parse(wrong), Typed::Wrong(_)), "{wrong}");
        }
    }

    #[test]
    fn t7_policy_lines_go_to_the_daemon_as_they_were_typed() {
        let policy = |line: &str| match Typed::parse(line) {
            Typed::Policy { text, session } => (text, session),
            other => panic!("{other:?}"),
        };
        let session = |id: &str| Some(id.to_owned());
        assert_eq!(policy("/permissions"), ("/permissions".to_owned(), None));
        assert_eq!(policy(" /permissions  default maybe "), ("/permissions default maybe".to_owned(), None));
        assert_eq!(
            policy("/skip-permissions on --session a/s"),
            ("/skip-permissions on".to_owned(), session("a/s"))
        );
        assert_eq!(
            policy("/permissions --session=s timeout 9"),
            ("/permissions timeout 9".to_owned(), session("s"))
        );
        for wrong in ["/permissions --session", "/permission", "permissions", "/", "/skip"] {
            assert!(matches!(Typed::parse(wrong), Typed::Wrong(_)), "{wrong}");
        }
    }

    #[test]
    fn c12_the_words_behind_deny_are_the_persons() {
        let deny = |line: &str| match Typed::parse(line) {
            Typed::Deny { id, option, stop, message } => (id, option, stop, message),
            other => panic!("{other:?}"),
        };
        let words = |text: &str| Some(text.to_owned());
        assert_eq!(
            deny("deny k7f not  this folder "),
            ("k7f".to_owned(), None, false, words("not  this folder"))
        );
        assert_eq!(deny("deny k7f"), ("k7f".to_owned(), None, false, None));
        assert_eq!(deny("deny k7f --stop enough"), ("k7f".to_owned(), None, true, words("enough")));
        assert_eq!(
            deny("deny k7f --option reject_once -m why --stop"),
            ("k7f".to_owned(), words("reject_once"), false, words("why --stop"))
        );
    }
}
