//! Line mode: asks are printed as they come, answers are typed as lines. A surface for any terminal, for a screen reader,
//! and for a pipe.
//!
//! No line that began before an ask was drawn answers it, and only an ask that was drawn here can be answered here, with
//! the digest of what was drawn. What is not understood answers nothing.

mod input;
mod link;
mod screen;

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::ChildStdout;
use std::time::Instant;

use askd_wire::{Ask, AskState, Decision, Scope, StreamEvent, SurfaceReport};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cmd::answer::{Said, give};
use crate::cmd::{config, permissions};
use crate::context::{Desk, who};
use crate::failure::{Done, Failure, status};
use crate::out;
use crate::queue::SURFACE;
use crate::target;

use self::input::{Input, Line, Typed};
use self::link::{Link, News};
use self::screen::Screen;

const HELP: &str = "\
allow k7f                  allow the ask k7f once; several handles are fine
allow k7f --option ID      give one of the options that the ask lists
deny k7f                   deny it
deny k7f not this folder   deny it and tell the agent why
deny k7f --stop enough     deny it and stop the agent's turn
show k7f                   the whole ask again
ls                         the open asks
/permissions               what happens without a person; also: default allow|deny, timeout SECS, with safety
/skip-permissions on|off   allow every tool ask without asking, and never a safety ask
quit                       leave; asks stay open
";

/// What this surface is for.
#[derive(Debug)]
pub(crate) struct Scene {
    /// Asks below this root session only, of the agent named.
    pub(crate) only: Option<(String, String)>,
    /// Lines of an agent that runs beside it; when they end, so does the surface.
    pub(crate) feed: Option<ChildStdout>,
    /// Said first.
    pub(crate) greeting: Option<String>,
}

impl Scene {
    /// A person's own: every ask, until they leave.
    pub(crate) fn person() -> Self {
        Self { only: None, feed: None, greeting: None }
    }

    fn scope(&self) -> Scope {
        match &self.only {
            None => Scope::All,
            Some((agent, session)) => Scope::Roots(vec![format!("{agent}/{session}")]),
        }
    }

    fn shows(&self, ask: &Ask) -> bool {
        self.only
            .as_ref()
            .is_none_or(|(agent, session)| ask.lineage.agent == *agent && ask.lineage.root == *session)
    }
}

pub(crate) fn run(desk: &Desk, scene: Scene) -> Done {
    let mut answers = desk.open()?;
    // What the settings do that a person should know before the first ask.
    let warnings = answers.health()?.warnings();
    let screen = Screen::new(who(&mut answers), config::bell(desk));
    // The stream takes the connection; answers and reports go over another one.
    let link = Link::open(answers, SURFACE, scene.scope())?;
    let input = Input::default();
    Surface { desk, scene, screen, link, input, warnings, told_lost: false, fed: Vec::new() }.run()
}

struct Surface<'a> {
    desk: &'a Desk,
    scene: Scene,
    screen: Screen,
    link: Link,
    input: Input,
    warnings: Vec<String>,
    told_lost: bool,
    fed: Vec<u8>,
}

/// Whether the surface goes on.
#[derive(Debug, PartialEq, Eq)]
enum Flow {
    On,
    Leave,
}

impl Surface<'_> {
    fn run(mut self) -> Done {
        if let Some(greeting) = self.scene.greeting.take() {
            out::print_line(&greeting)?;
        }
        for warning in std::mem::take(&mut self.warnings) {
            self.screen.warn(&warning)?;
        }
        loop {
            if self.events()? == Flow::Leave || self.lines()? == Flow::Leave {
                return Ok(status::OK);
            }
            // A scripted agent may be answered from another terminal, so it goes on without this one's input.
            if self.input.has_ended() && self.scene.feed.is_none() {
                return Ok(status::OK);
            }
            if self.wait()? == Flow::Leave {
                return Ok(status::OK);
            }
        }
    }

    /// Waits for input, an event, a line of the agent, or the time to connect again.
    fn wait(&mut self) -> Result<Flow, Failure> {
        let timeout = self.link.retry_at().map(|at| {
            let wait = at.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: i64::try_from(wait.as_secs()).unwrap_or(1),
                tv_nsec: wait.subsec_nanos().into(),
            }
        });
        let stdin = io::stdin();
        let mut fds = Vec::with_capacity(3);
        let mut at = [None; 2];
        if !self.input.has_ended() {
            at[0] = Some(fds.len());
            fds.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN));
        }
        if let Some(feed) = &self.scene.feed {
            at[1] = Some(fds.len());
            fds.push(PollFd::new(feed, PollFlags::IN));
        }
        fds.extend(self.link.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed("waiting")(error.into())),
        }
        let woke: Vec<bool> =
            at.iter().map(|at| at.is_some_and(|at: usize| !fds[at].revents().is_empty())).collect();
        if woke[0] {
            self.fill()?;
        }
        if woke[1] {
            return self.agent_said();
        }
        Ok(Flow::On)
    }

    fn fill(&mut self) -> Result<(), Failure> {
        self.input.fill(self.screen.drawn()).map_err(failed("standard input"))
    }

    /// Handles everything that waits in the stream.
    fn events(&mut self) -> Result<Flow, Failure> {
        if self.link.retry_at().is_some_and(|at| Instant::now() >= at) && self.link.retry(self.desk)? {
            self.told_lost = false;
            self.screen.say("connected again; the asks stayed open")?;
        }
        loop {
            match self.link.next() {
                News::Nothing => return Ok(Flow::On),
                News::Event(event) => self.event(*event)?,
                News::Lost if self.told_lost => return Ok(Flow::On),
                News::Lost => {
                    self.told_lost = true;
                    self.screen.say("the daemon went away; connecting again")?;
                    return Ok(Flow::On);
                }
                News::Stopped => {
                    self.screen.say("askd was stopped; agents ask by themselves until `askd` runs again")?;
                    return Ok(Flow::Leave);
                }
            }
        }
    }

    fn event(&mut self, event: StreamEvent) -> Result<(), Failure> {
        match event {
            StreamEvent::Snapshot { asks, .. } => self.snapshot(&asks),
            StreamEvent::Ask { what, ask, .. } if self.scene.shows(&ask) => self.ask(&what, &ask),
            StreamEvent::Notice { text } => self.screen.say(&format!("notice: {text}")),
            StreamEvent::Gap { .. } => self.screen.say("some events were missed; the open asks follow"),
            StreamEvent::Ask { .. }
            | StreamEvent::Waiting { .. }
            | StreamEvent::Woke
            | StreamEvent::Bye { .. } => Ok(()),
        }
    }

    /// Draws what is new in it, and tells what became of asks that are not in it any more.
    fn snapshot(&mut self, asks: &[Ask]) -> Result<(), Failure> {
        let first = self.screen.drawn() == 0;
        let mine: Vec<&Ask> = asks.iter().filter(|ask| self.scene.shows(ask)).collect();
        let gone: Vec<String> =
            self.screen.open_ids().into_iter().filter(|id| !asks.iter().any(|ask| ask.id == *id)).collect();
        for id in gone {
            let found = self.desk.answers().and_then(|mut answers| Ok(answers.show(&id)?));
            match found {
                Ok(ask) => self.screen.update(&ask)?,
                Err(failure) if failure.status == status::UNKNOWN => self.screen.lost(&id)?,
                // The daemon went away again: the next snapshot has it to tell.
                Err(_) => break,
            }
        }
        if first && self.scene.feed.is_none() {
            let text = match mine.len() {
                0 => "no open asks; they are printed as they come (help tells what can be typed)".to_owned(),
                1 => "1 open ask (help tells what can be typed)".to_owned(),
                n => format!("{n} open asks (help tells what can be typed)"),
            };
            self.screen.say(&text)?;
        }
        for ask in mine {
            if self.screen.knows(&ask.id) {
                self.screen.update(ask)?;
            } else {
                self.draw(ask, !first)?;
            }
        }
        Ok(())
    }

    fn ask(&mut self, what: &str, ask: &Ask) -> Result<(), Failure> {
        if self.screen.knows(&ask.id) {
            return self.screen.update(ask);
        }
        match (what, ask.state) {
            // Perhaps to the tree that is watched here.
            ("asked" | "moved", AskState::Open) => self.draw(ask, true),
            ("asked", AskState::Settled) => self.screen.missed(ask),
            _ => Ok(()),
        }
    }

    /// What was typed until now was typed without having seen it.
    fn draw(&mut self, ask: &Ask, ring: bool) -> Result<(), Failure> {
        self.fill()?;
        let titled = self.screen.who.knows(ask);
        let mut answers = self.desk.answers();
        if !titled && let Ok(answers) = &mut answers {
            self.screen.who = who(answers);
        }
        self.screen.draw(ask, ring)?;
        if let Ok(mut answers) = answers {
            // For the log; a daemon that goes away now is noticed by the stream.
            let _ = answers.report(self.link.surface(), &SurfaceReport::Shown { ask: ask.id.clone() });
        }
        Ok(())
    }

    fn lines(&mut self) -> Result<Flow, Failure> {
        for line in self.input.lines() {
            if self.line(line)? == Flow::Leave {
                return Ok(Flow::Leave);
            }
        }
        Ok(Flow::On)
    }

    fn line(&mut self, line: Line) -> Result<Flow, Failure> {
        let Some(text) = &line.text else {
            self.screen.say("that line is too long or no UTF-8; nothing was answered")?;
            return Ok(Flow::On);
        };
        match Typed::parse(text) {
            Typed::Nothing => {}
            Typed::Help => out::print(HELP)?,
            Typed::Wrong(why) => out::print_line(&format!("{why}. help tells what can be typed"))?,
            Typed::Quit => {
                self.screen.say("left; asks stay open")?;
                return Ok(Flow::Leave);
            }
            Typed::List => self.list()?,
            Typed::Policy { text, session } => self.policy(&text, session.as_deref())?,
            Typed::Show(ids) => {
                for id in ids {
                    self.show(&id)?;
                }
            }
            Typed::Allow { ids, option } => {
                let said = Said { decision: Decision::Allow, option, message: None, stop: false };
                for id in ids {
                    self.answer(&id, line.began, &said)?;
                }
            }
            Typed::Deny { id, option, stop, message } => {
                let said = Said { decision: Decision::Deny, option, message, stop };
                self.answer(&id, line.began, &said)?;
            }
        }
        Ok(Flow::On)
    }

    fn list(&mut self) -> Result<(), Failure> {
        match self.desk.answers().and_then(|mut answers| Ok(answers.list(false)?)) {
            Ok(asks) => {
                let asks: Vec<Ask> = asks.into_iter().filter(|ask| self.scene.shows(ask)).collect();
                self.screen.list(&asks)
            }
            Err(failure) => out::print_line(&failure.text),
        }
    }

    /// For the session that was named, for that of an agent that runs beside, else for every one.
    fn policy(&mut self, text: &str, session: Option<&str>) -> Result<(), Failure> {
        let beside = self.scene.only.as_ref().map(|(agent, root)| format!("{agent}/{root}"));
        let reply = self.desk.answers().and_then(|mut answers| {
            let session = session.map(|typed| permissions::session(&mut answers, typed)).transpose()?;
            Ok(answers.permissions_command(text, session.or(beside).as_deref())?)
        });
        match reply {
            Ok(reply) => out::print_line(&reply),
            Err(failure) => out::print_line(&format!("{}; nothing was changed", failure.text)),
        }
    }

    fn show(&mut self, id: &str) -> Result<(), Failure> {
        match self.desk.answers().and_then(|mut answers| target::find(&mut answers, id)) {
            Ok(ask) => self.draw(&ask, false),
            Err(failure) => out::print_line(&failure.text),
        }
    }

    fn answer(&mut self, typed: &str, began: u64, said: &Said) -> Result<(), Failure> {
        let named = out::safe(typed);
        let Some(drawn) = self.screen.find(typed) else {
            return out::print_line(&format!(
                "{named}: no ask of this handle was shown here; nothing was answered (ls lists the open ones, show {named} shows it)"
            ));
        };
        if began < drawn.number {
            return out::print_line(&format!(
                "{named}: that line began before the ask was shown; nothing was answered, type it again"
            ));
        }
        let shown = drawn.shown.clone();
        let surface = self.link.surface().to_owned();
        let given = self.desk.answers().and_then(|mut answers| give(&mut answers, &shown, said, &surface));
        // Also who was first, when somebody was.
        let (told, text) = match given {
            Ok(line) => (true, line),
            Err(failure) => (failure.status == status::ALREADY, failure.text),
        };
        if told {
            self.screen.was_told(&shown.id);
        }
        out::print_line(&text)
    }

    /// Passes on what the agent beside it says, line by line.
    fn agent_said(&mut self) -> Result<Flow, Failure> {
        let Some(feed) = &mut self.scene.feed else { return Ok(Flow::On) };
        let mut buffer = [0; 4096];
        let count = feed.read(&mut buffer).map_err(failed("the agent's output"))?;
        if count == 0 {
            // Outcomes that are on their way are told first.
            self.events()?;
            return Ok(Flow::Leave);
        }
        self.fed.extend_from_slice(&buffer[..count]);
        while let Some(end) = self.fed.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.fed.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]).into_owned();
            out::print_line(&format!("agent: {}", out::one_line(&line)))?;
        }
        Ok(Flow::On)
    }
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::unavailable(format!("{what}: {error}"))
}
