//! The program around the queue: a terminal, the daemon's stream, answers on their way.
//!
//! One thread draws and reads keys. Everything that waits for the daemon is done in others, which tell and wake it.

mod inbox;
mod input;
mod leave;
mod notify;
mod options;
mod signals;
mod stream;
mod terminal;
mod work;

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use askd_client::Places;
use jiff::tz::TimeZone;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::action::{Action, Link, Reply, Settings};
use crate::around::Place;
use crate::key::Key;
use crate::now::Now;
use crate::queue::Queue;

use inbox::{Inbox, News};
use leave::{OnWay, Parting};
pub use notify::Notify;
pub use options::{How, Left, Options, RunError};
use signals::Signals;
use stream::{Ended, Plan};
use terminal::Screen;
use work::{Job, Workers};

/// A frame that takes longer than this to be written is not on the screen the moment that it is.
const SLOW_FRAME: Duration = Duration::from_millis(50);

fn failed(step: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |error| RunError::Terminal(step, error)
}

/// Opens the queue on this terminal, until the person leaves. The terminal is given back as it was, whatever happens;
/// then what was answered last has some seconds to reach the daemon.
pub fn run(places: &Places, options: Options) -> Result<Left, RunError> {
    if !terminal::is_there() {
        return Err(RunError::NoTerminal);
    }
    let plan = Plan {
        places: places.clone(),
        exe: options.exe.clone(),
        name: options.name.clone(),
        only: options.only.clone(),
    };
    // A daemon that cannot be had is told on the plain screen.
    let first = plan.open()?;
    let (inbox, news) = Inbox::new().map_err(failed("a pipe"))?;
    let workers = Workers::start(places, &news).map_err(failed("a thread"))?;
    let signals = Signals::catch(|| news.bell()).map_err(failed("signals"))?;
    let screen = Screen::take().map_err(failed("the terminal"))?;
    let follow = news.clone();
    let spawned = std::thread::Builder::new().name("askd-events".to_owned()).spawn(move || {
        let ended = plan.follow(first, &follow);
        let _ = follow.send(News::Ended(ended));
    });
    spawned.map_err(failed("a thread"))?;
    let Options { feed, greeting, bell, notify, .. } = options;
    if let Some(from) = feed {
        work::feed(from, news.clone()).map_err(failed("a thread"))?;
    }
    let mut queue = Queue::new(settings());
    if let Some(greeting) = greeting {
        queue.say(&greeting);
    }
    workers.give(Job::ReadWarnings);
    let in_tmux = is_set("TMUX");
    let mut desk = Desk {
        queue,
        screen,
        inbox,
        workers,
        signals,
        input: input::Bytes::default(),
        surface: String::new(),
        bell,
        notify,
        in_tmux,
        on_way: OnWay::default(),
        parting: None,
        left: None,
    };
    let how = desk.run();
    desk.screen.leave();
    desk.part(how)
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

fn settings() -> Settings {
    let home = std::env::home_dir().and_then(|home| home.into_os_string().into_string().ok());
    let host = rustix::system::uname().nodename().to_str().ok().map(str::to_owned);
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    Settings { place: Place { home, host, zone: TimeZone::system() }, colour: !is_set("NO_COLOR") && !dumb }
}

fn now() -> Now {
    use rustix::time::{ClockId, clock_gettime};
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    let time = clock_gettime(clock);
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now {
        tick: Duration::from_secs(secs) + Duration::from_nanos(nanos.into()),
        wall_ms: i64::try_from(wall.as_millis()).unwrap_or(i64::MAX),
    }
}

/// Everything while it runs.
struct Desk {
    queue: Queue,
    screen: Screen,
    inbox: Inbox,
    workers: Workers,
    signals: Signals,
    input: input::Bytes,
    surface: String,
    bell: bool,
    notify: Notify,
    in_tmux: bool,
    on_way: OnWay,
    /// From the moment on that the person has left.
    parting: Option<Parting>,
    left: Option<Result<How, RunError>>,
}

impl Desk {
    fn run(&mut self) -> Result<How, RunError> {
        loop {
            self.draw()?;
            if let Some(left) = self.left.take() {
                return left;
            }
            self.wait()?;
            self.signalled()?;
            self.told()?;
            self.keys(false)?;
            let actions = self.queue.handle_timeout(now());
            self.act(actions)?;
            if let Some(left) = self.left.take() {
                return left;
            }
        }
    }

    fn draw(&mut self) -> Result<(), RunError> {
        let Self { queue, screen, input, .. } = self;
        // What was typed until the frame goes out was typed without having seen it.
        let mut before = Ok(Reading::Keys(Vec::new()));
        let mut start = now();
        let drawn = screen.terminal.draw(|frame| {
            queue.draw(frame, frame.area(), now());
            before = read_keys(input, false);
            start = now();
        });
        drawn.map_err(failed("drawing"))?;
        self.hand_in(before?)?;
        // A terminal that takes long to take a frame is long in showing it.
        if now().tick.saturating_sub(start.tick) > SLOW_FRAME {
            self.keys(false)?;
        }
        let actions = self.queue.on_screen(now());
        self.act(actions)
    }

    /// Until a key, news, a signal, or the time that the queue wants to be called at.
    fn wait(&mut self) -> Result<(), RunError> {
        let rest = self.input.is_waiting().then_some(input::ESCAPE_WAIT);
        let timeout = [self.queue.poll_timeout(now()), rest].into_iter().flatten().min();
        let timeout = timeout.map(timespec);
        let stdin = io::stdin();
        let ready = {
            let mut fds = [
                PollFd::new(&stdin, PollFlags::IN),
                PollFd::from_borrowed_fd(self.inbox.fd(), PollFlags::IN),
            ];
            match poll(&mut fds, timeout.as_ref()) {
                Ok(count) => count,
                // A signal: its flag is looked at next.
                Err(rustix::io::Errno::INTR) => 1,
                Err(error) => return Err(RunError::Terminal("waiting", error.into())),
            }
        };
        if ready == 0 && rest.is_some() {
            // The rest of a sequence does not come.
            self.keys(true)?;
        }
        Ok(())
    }

    fn signalled(&mut self) -> Result<(), RunError> {
        if self.signals.told_to_leave() {
            self.left = Some(Ok(How::BySignal));
        }
        if self.signals.told_to_stop() {
            self.stop()?;
        }
        // A frame is drawn at the new size by itself; what is on the screen may be garbled until then.
        if self.signals.resized() {
            self.screen.terminal.autoresize().map_err(failed("the terminal"))?;
        }
        Ok(())
    }

    /// Gives the terminal back, stops, and takes it again.
    fn stop(&mut self) -> Result<(), RunError> {
        self.screen.leave();
        self.wait_for_replies()?;
        signals::stop_here();
        self.queue.blind();
        self.screen.enter().map_err(failed("the terminal"))
    }

    /// Reads what was typed, without waiting, and hands it in.
    fn keys(&mut self, late: bool) -> Result<(), RunError> {
        let read = read_keys(&mut self.input, late)?;
        self.hand_in(read)
    }

    fn hand_in(&mut self, read: Reading) -> Result<(), RunError> {
        let mut keys = match read {
            Reading::Keys(keys) => keys,
            Reading::Ended => {
                self.left = Some(Ok(How::BySignal));
                return Ok(());
            }
        };
        if !self.queue.is_typing() && input::looks_pasted(&keys) {
            keys = vec![Key::Paste(String::new())];
        }
        let mut keys = VecDeque::from(keys);
        while let Some(mut key) = keys.pop_front() {
            if key == Key::Ctrl('z') {
                self.stop()?;
                continue;
            }
            let was_typing = self.queue.is_typing();
            // A paste of several lines into a terminal that does not say so is sent by the person and not by its first
            // line break.
            let pasted = was_typing && key == Key::Enter && input::goes_on(&keys);
            if pasted {
                key = Key::Paste(input::text(std::iter::once(key).chain(keys.drain(..))));
            }
            let actions = self.queue.handle_key(key, now());
            if pasted {
                self.queue.say_now("several lines at once are one line here: nothing was sent");
            }
            // What came in one go with the end of a line belongs to it, and is no key for what comes into sight.
            if was_typing && !self.queue.is_typing() {
                keys.clear();
            }
            self.act(actions)?;
        }
        Ok(())
    }

    /// Everything that other threads told.
    fn told(&mut self) -> Result<(), RunError> {
        self.inbox.hush();
        while let Some(news) = self.inbox.next() {
            let actions = match news {
                News::Up { surface } => {
                    self.surface = surface;
                    self.queue.handle_link(Link::Up, now())
                }
                News::Down(why) => self.queue.handle_link(Link::Down(why), now()),
                News::Event(event) => self.queue.handle_event(*event, now()),
                News::Reply(reply) => self.replied(reply),
                News::Sessions(sessions) => {
                    self.queue.set_sessions(sessions);
                    Vec::new()
                }
                News::Fed(line) => {
                    self.queue.say(&format!("agent: {line}"));
                    Vec::new()
                }
                News::Health(health) => {
                    self.queue.handle_health(&health);
                    Vec::new()
                }
                News::Warning(text) => {
                    self.queue.warn(&text);
                    Vec::new()
                }
                News::FeedEnded => {
                    let told = self.queue.told();
                    self.leave(Ok(How::FeedEnded { told }))
                }
                News::Ended(Ended::Stopped) => self.leave(Ok(How::Stopped)),
                News::Ended(Ended::For(error)) => self.leave(Err(error.into())),
                News::Ended(Ended::Unheard) => Vec::new(),
            };
            self.act(actions)?;
        }
        Ok(())
    }

    fn leave(&mut self, how: Result<How, RunError>) -> Vec<Action> {
        self.left = Some(how);
        Vec::new()
    }

    fn replied(&mut self, reply: Reply) -> Vec<Action> {
        self.on_way.replied(&reply);
        let Some(parting) = &mut self.parting else { return self.queue.handle_reply(reply, now()) };
        self.queue.forget_told();
        let actions = self.queue.handle_reply(reply.clone(), now());
        parting.reply(&reply, self.queue.told());
        actions
    }

    /// Until the daemon has replied to everything that it was told, or is not going to. The terminal is not ours.
    fn wait_for_replies(&mut self) -> Result<(), RunError> {
        let begun = now().tick;
        let mut is_told = false;
        self.told()?;
        while !self.on_way.is_empty() {
            let waited = now().tick.saturating_sub(begun);
            let until = if is_told { leave::PATIENCE } else { leave::UNTOLD };
            let Some(rest) = until.checked_sub(waited).filter(|rest| !rest.is_zero()) else {
                if is_told {
                    break;
                }
                is_told = true;
                let texts: Vec<&str> = self.on_way.texts().collect();
                tell(&format!(
                    "askd: waiting for the daemon to take {}",
                    askd_text::cut(&texts.join(", "), 200)
                ));
                continue;
            };
            let mut fds = [PollFd::from_borrowed_fd(self.inbox.fd(), PollFlags::IN)];
            match poll(&mut fds, Some(&timespec(rest))) {
                Ok(_) | Err(rustix::io::Errno::INTR) => self.told()?,
                Err(error) => return Err(RunError::Terminal("waiting", error.into())),
            }
        }
        Ok(())
    }

    /// What was answered last is on its way still, or it is not: that is told.
    fn part(&mut self, how: Result<How, RunError>) -> Result<Left, RunError> {
        let mut parting = Parting::default();
        if !self.on_way.is_empty() {
            self.parting = Some(Parting::default());
            let waited = self.wait_for_replies();
            parting = self.parting.take().unwrap_or_default();
            parting.unheard(&self.on_way);
            waited?;
        }
        let Parting { lines, failed } = parting;
        match how {
            Ok(How::ByPerson { .. }) => {
                Ok(Left { how: How::ByPerson { waiting: self.queue.open() }, replies: lines, failed })
            }
            Ok(how) => Ok(Left { how, replies: lines, failed }),
            Err(error) => {
                lines.iter().for_each(|line| tell(line));
                Err(error)
            }
        }
    }

    fn act(&mut self, actions: Vec<Action>) -> Result<(), RunError> {
        for action in actions {
            let job = match action {
                Action::Answer(mut answer) => {
                    self.on_way.answer(&self.queue, &answer);
                    answer.answer.surface = Some(self.surface.clone());
                    Job::Answer(answer)
                }
                Action::Bulk(mut answers) => {
                    for answer in &mut answers {
                        self.on_way.answer(&self.queue, answer);
                        answer.answer.surface = Some(self.surface.clone());
                    }
                    Job::Bulk(answers)
                }
                Action::Command { text, session } => {
                    self.on_way.command(&text);
                    Job::Command { text, session }
                }
                Action::TakeBack { id } => {
                    self.on_way.take_back(&id);
                    Job::TakeBack { id }
                }
                Action::Report(report) => Job::Report { surface: self.surface.clone(), report },
                Action::Look { id } => Job::Look { id },
                Action::ReadSessions => Job::ReadSessions,
                Action::ReadHealth => Job::ReadHealth,
                Action::JumpToPane { pane } => Job::JumpToPane { pane },
                // The terminal is somebody else's already.
                Action::Alert(_) | Action::Title(_) | Action::Redraw if !self.screen.is_taken() => continue,
                Action::Alert(text) => {
                    let text = notify::alert(&text, self.bell, self.notify, self.in_tmux);
                    self.screen.write(&text).map_err(failed("the terminal"))?;
                    continue;
                }
                Action::Title(text) => {
                    self.screen.write(&notify::title(&text)).map_err(failed("the terminal"))?;
                    continue;
                }
                Action::Redraw => {
                    self.screen.clear().map_err(failed("the terminal"))?;
                    continue;
                }
                Action::Quit => {
                    self.left = Some(Ok(How::ByPerson { waiting: self.queue.open() }));
                    continue;
                }
                Action::Snooze { .. } | Action::TakeKeys | Action::GiveKeys(_) => continue,
            };
            self.workers.give(job);
        }
        Ok(())
    }
}

fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: span.subsec_nanos().into(),
    }
}

/// On the plain screen; when that is closed there is nobody to tell.
fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// What the terminal had to say.
enum Reading {
    Keys(Vec<Key>),
    /// It is gone.
    Ended,
}

/// Reads what waits, without waiting for more.
fn read_keys(input: &mut input::Bytes, late: bool) -> Result<Reading, RunError> {
    let stdin = io::stdin();
    let mut buffer = [0; 4096];
    loop {
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut fds, Some(&at_once)) {
            Ok(0) => return Ok(Reading::Keys(input.keys(late))),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(RunError::Terminal("waiting", error.into())),
        }
        match rustix::io::read(&stdin, &mut buffer) {
            Ok(0) | Err(rustix::io::Errno::IO) => return Ok(Reading::Ended),
            Ok(count) => input.push(&buffer[..count]),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(RunError::Terminal("standard input", error.into())),
        }
    }
}
