//! The bot's token, read beside everything else: no start, no ask and no command of a person waits for it, and a reading
//! that failed is made again, with growing pauses. What a person accepted stays accepted meanwhile, and nothing is in
//! force of a token that was not read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use askd_config::{Secret, TokenError, Way};
use tokio::sync::oneshot;

use crate::http::App;
use crate::publish::What;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Who looks at askd makes it read a file again, but not without end.
const FILE_REST: Duration = Duration::from_secs(1);
/// A command may open a dialog of a keyring.
const COMMAND_REST: Duration = Duration::from_secs(60);
/// A token that could not be read for so long is nothing to let an ask wait for.
const HOPE: Duration = Duration::from_secs(600);
/// A command that is stopped has so long to end.
const END: Duration = Duration::from_secs(1);

/// What is known of the token.
#[derive(Debug, Default)]
pub(crate) struct Token {
    /// How it is got; `None`: nobody wants one, or it may not be got yet.
    way: Option<Way>,
    secret: Option<Secret>,
    /// It is to be read, or being read.
    pending: bool,
    /// And once more after that: the file may have changed under the reading.
    once_more: bool,
    failed: Option<Failed>,
    /// Readings that failed in a row.
    failures: u32,
    read_at: Option<Instant>,
}

#[derive(Debug)]
struct Failed {
    why: String,
    since: Instant,
    /// It will be the same until somebody does something.
    for_good: bool,
}

impl Token {
    pub(crate) fn by(way: Option<Way>) -> Self {
        Self { pending: way.is_some(), way, ..Self::default() }
    }

    /// The way may be another one, or (`again`) the settings were read again: whether it is to be read.
    pub(crate) fn set_way(&mut self, way: Option<Way>, again: bool) -> bool {
        if self.way == way {
            return again && self.again(|way| matches!(way, Way::Command(_)).then_some(COMMAND_REST));
        }
        *self = Self::by(way);
        self.pending
    }

    /// Somebody looks, and may have put it right: whether it is to be read now. `refused`: the bot's server does not
    /// take what it gets.
    pub(crate) fn look_again(&mut self, refused: bool) -> bool {
        let is_command = matches!(self.way, Some(Way::Command(_)));
        let wanted = match &self.failed {
            Some(failed) => !failed.for_good,
            None => refused && !is_command,
        };
        wanted && self.again(|_| Some(if is_command { COMMAND_REST } else { FILE_REST }))
    }

    fn again(&mut self, rest: impl Fn(&Way) -> Option<Duration>) -> bool {
        let Some(way) = &self.way else { return false };
        let rested = match (rest(way), self.read_at) {
            (Some(rest), Some(at)) => at.elapsed() >= rest,
            _ => true,
        };
        if self.pending {
            self.once_more |= rested && !matches!(way, Way::Command(_));
            return false;
        }
        self.pending = rested;
        rested
    }

    /// Takes what a reading of `way` gave; what is worth telling everybody.
    fn take(&mut self, way: &Way, read: Result<Secret, TokenError>) -> Option<String> {
        // Another way was set meanwhile.
        if self.way.as_ref() != Some(way) {
            return None;
        }
        self.pending = std::mem::take(&mut self.once_more);
        self.read_at = Some(Instant::now());
        match read {
            Ok(secret) => {
                self.secret = Some(secret);
                self.failures = 0;
                self.failed.take().map(|_| "Telegram: its token was read".to_owned())
            }
            Err(error) => {
                // What a file does not say any more is not so any more. A command that fails says nothing, nor does a
                // file that was not reached.
                if !matches!(way, Way::Command(_)) && !matches!(error, TokenError::NotRead(_)) {
                    self.secret = None;
                }
                self.failures = self.failures.saturating_add(1);
                let why = error.to_string();
                let before = self.failed.take();
                let is_new = before.as_ref().is_none_or(|before| before.why != why);
                let since = before.map_or_else(Instant::now, |before| before.since);
                let text = is_new.then(|| format!("Telegram: {why}"));
                // An environment stays as it is.
                let for_good = matches!(way, Way::Env(_)) && !matches!(error, TokenError::NotRead(_));
                self.failed = Some(Failed { why, since, for_good });
                text
            }
        }
    }

    /// Until it is tried again.
    fn pause(&self) -> Option<Duration> {
        self.failed.as_ref().filter(|failed| !failed.for_good)?;
        // Nobody gets dialog after dialog of a keyring.
        let first = if matches!(self.way, Some(Way::Command(_))) { COMMAND_REST } else { FIRST_PAUSE };
        let doubled = first.saturating_mul(1 << self.failures.saturating_sub(1).min(16));
        Some(doubled.min(LONGEST_PAUSE))
    }

    /// Whether it may still come by itself, and soon. `env`: variables of the environment count.
    pub(crate) fn may_come(&self, env: bool) -> bool {
        let counts = env || !matches!(self.way, Some(Way::Env(_)));
        let hope = |failed: &Failed| !failed.for_good && failed.since.elapsed() < HOPE;
        counts && self.failed.as_ref().is_none_or(hope)
    }

    /// How long the reading that is under way may take: only a command takes any time.
    pub(crate) fn takes_ms(&self) -> u64 {
        let takes = self.pending && matches!(self.way, Some(Way::Command(_)));
        if takes { u64::try_from(Way::PATIENCE.as_millis()).unwrap_or_default() } else { 0 }
    }

    pub(crate) fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.pending
    }

    /// Why there is none although one is wanted, and for how long.
    pub(crate) fn trouble(&self) -> Option<String> {
        let failed = self.failed.as_ref().filter(|_| self.secret.is_none())?;
        let again = if failed.for_good { "" } else { "; askd tries again by itself" };
        Some(format!("no token for {}: {}{again}", askd_text::duration(failed.since.elapsed()), failed.why))
    }

    /// It works with the one that it has, and another cannot be read.
    pub(crate) fn notice(&self) -> Option<String> {
        let failed = self.failed.as_ref().filter(|_| self.secret.is_some())?;
        let time = askd_text::duration(failed.since.elapsed());
        Some(format!("{} for {time}; the token that it gave before is still in use", failed.why))
    }
}

/// Reads the token whenever it is to be read, until the daemon leaves.
pub(crate) async fn keep(app: App) {
    let news = app.live.token_news();
    let mut leave = app.leave.subscribe();
    let mut readers = Readers::default();
    while app.leave.borrow().is_none() {
        let state = app.live.with_token(|token| (token.way.clone(), token.pending, token.pause()));
        let (way, pending, pause) = state.unwrap_or_default();
        match way {
            Some(way) if pending => {
                let Some(read) = read(&app, &way, &mut readers).await else { continue };
                let told = app.live.with_token(|token| token.take(&way, read)).flatten();
                app.live.reconsider(&app.engine, &app.hub).await;
                if let Some(text) = told {
                    tracing::warn!("{text}");
                    app.hub.send(What::Notice(text));
                }
            }
            way => tokio::select! {
                () = news.notified() => {}
                () = tokio::time::sleep(pause.unwrap_or(LONGEST_PAUSE)), if way.is_some() && pause.is_some() => {
                    app.live.with_token(|token| token.pending = token.way.is_some());
                }
                _ = leave.wait_for(Option::is_some) => {}
            },
        }
    }
}

/// `None`: it is not wanted any more by the time that it is there.
async fn read(app: &App, way: &Way, readers: &mut Readers) -> Option<Result<Secret, TokenError>> {
    if matches!(way, Way::Env(_)) && !app.live.env_counts() {
        return Some(Err(TokenError::NoEnv));
    }
    let read = {
        let way = way.clone();
        move |stop: &AtomicBool| way.read(stop)
    };
    // A command ends by itself a little earlier, and says more.
    readers.read(way, Way::PATIENCE + END, read, unwanted(app, way)).await
}

/// Ends when the token is not wanted any more, or not by this way.
async fn unwanted(app: &App, way: &Way) {
    let mut leave = app.leave.subscribe();
    loop {
        tokio::select! {
            () = app.live.token_news().notified() => {
                if app.live.with_token(|token| token.way.as_ref() == Some(way)) != Some(true) {
                    return;
                }
            }
            _ = leave.wait_for(Option::is_some) => return,
        }
    }
}

/// Threads that did not come back in time: a file system may hang.
#[derive(Debug, Default)]
struct Readers {
    inside: Vec<(Way, JoinHandle<()>)>,
}

impl Readers {
    /// Reads on a thread of its own, for which the daemon's end waits no longer than it has to. `None`: `unwanted` came
    /// first.
    async fn read(
        &mut self,
        way: &Way,
        limit: Duration,
        read: impl FnOnce(&AtomicBool) -> Result<Secret, TokenError> + Send + 'static,
        unwanted: impl Future<Output = ()>,
    ) -> Option<Result<Secret, TokenError>> {
        let late = || TokenError::NotRead(format!("it did not come within {} s", limit.as_secs()));
        self.inside.retain(|(_, thread)| !thread.is_finished());
        if self.inside.iter().any(|(of, _)| of == way) {
            return Some(Err(late()));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, mut result) = oneshot::channel();
        let started = thread::Builder::new().name("token".to_owned()).spawn({
            let stop = Arc::clone(&stop);
            move || {
                let _ = sender.send(read(&stop));
            }
        });
        let thread = match started {
            Ok(thread) => thread,
            Err(error) => return Some(Err(TokenError::NotRead(error.to_string()))),
        };
        let ended = |read: Result<_, _>| {
            read.unwrap_or_else(|_| Err(TokenError::NotRead("its thread ended".to_owned())))
        };
        let is_late = tokio::select! {
            read = &mut result => return Some(ended(read)),
            () = tokio::time::sleep(limit) => true,
            () = unwanted => false,
        };
        stop.store(true, Ordering::SeqCst);
        let read = match tokio::time::timeout(END, &mut result).await {
            Ok(read) => ended(read),
            Err(_) => {
                self.inside.push((way.clone(), thread));
                Err(late())
            }
        };
        is_late.then_some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "123456:AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQr";

    fn failed(why: &str) -> Result<Secret, TokenError> {
        Err(TokenError::Command(why.to_owned()))
    }

    fn good() -> Result<Secret, TokenError> {
        Secret::parse(TOKEN, "x")
    }

    #[test]
    fn pauses_grow_and_a_reason_is_told_once() {
        let way = Way::Command("pass".to_owned());
        let mut token = Token::by(Some(way.clone()));
        assert!(token.is_pending());
        assert_eq!(
            token.take(&way, failed("locked")).as_deref(),
            Some("Telegram: telegram.token_cmd: locked")
        );
        let mut last = Duration::ZERO;
        for _ in 0..12 {
            let pause = token.pause().unwrap();
            assert!(pause > last || pause == LONGEST_PAUSE);
            last = pause;
            assert_eq!(token.take(&way, failed("locked")), None);
        }
        assert_eq!(last, LONGEST_PAUSE);
        token.failures = 1;
        assert!(token.pause().unwrap() >= COMMAND_REST, "a keyring asks at most once a minute");
        let trouble = token.trouble().unwrap();
        assert!(trouble.starts_with("no token for 0s: telegram.token_cmd: locked"), "{trouble}");
        // Nobody who looks runs a command again and again.
        assert!(!token.look_again(false));
        assert!(token.take(&way, good()).is_some());
        assert_eq!((token.pause(), token.trouble()), (None, None));
        assert!(token.secret().is_some());
    }

    #[test]
    fn a_command_that_fails_later_takes_no_token_away_and_a_file_does() {
        let way = Way::Command("pass".to_owned());
        let mut token = Token::by(Some(way.clone()));
        token.take(&way, good());
        token.take(&way, failed("locked"));
        assert!(token.secret().is_some() && token.trouble().is_none() && token.notice().is_some());
        let way = Way::File("/t".to_owned());
        assert!(token.set_way(Some(way.clone()), false));
        assert!(token.secret().is_none(), "another way begins without one");
        token.take(&way, good());
        assert!(token.set_way(Some(way.clone()), true), "a file is read again when the settings are");
        token.take(&way, Err(TokenError::File { path: "/t".to_owned(), why: "is gone".to_owned() }));
        assert!(token.secret().is_none() && token.trouble().is_some());
        // Edited while it is being read.
        assert!(token.set_way(Some(way.clone()), true) && !token.set_way(Some(way.clone()), true));
        token.take(&way, good());
        assert!(token.is_pending());
        token.take(&way, good());
        assert!(!token.is_pending());
    }

    #[test]
    fn what_comes_late_from_another_way_is_nothing() {
        let (old, new) = (Way::Command("old".to_owned()), Way::Command("new".to_owned()));
        let mut token = Token::by(Some(old.clone()));
        assert!(token.set_way(Some(new), false));
        assert_eq!(token.take(&old, good()), None);
        assert!(token.secret().is_none() && token.is_pending());
        assert!(!token.set_way(None, true) && !token.is_pending());
    }

    #[test]
    fn a_daemon_without_an_environment_does_not_try_again() {
        let way = Way::Env("BOT".to_owned());
        let mut token = Token::by(Some(way.clone()));
        assert!(token.take(&way, Err(TokenError::NoEnv)).unwrap().contains("askd daemon"));
        assert_eq!(token.pause(), None);
        assert!(!token.look_again(true));
        assert!(token.trouble().is_some());
    }

    #[test]
    fn only_a_token_that_may_come_soon_is_waited_for() {
        let file = Way::File("/t".to_owned());
        let gone = || Err(TokenError::File { path: "/t".to_owned(), why: "is gone".to_owned() });
        let mut token = Token::by(Some(file.clone()));
        assert!(token.may_come(false) && token.takes_ms() == 0);
        token.take(&file, gone());
        assert!(token.may_come(false), "it may be there again in a second");
        token.failed.as_mut().unwrap().since = Instant::now().checked_sub(HOPE).unwrap();
        token.take(&file, gone());
        assert!(!token.may_come(false), "it is gone for long");
        token.take(&file, good());
        assert!(token.may_come(false));
        let mut token = Token::by(Some(Way::Env("BOT".to_owned())));
        assert!(token.may_come(true) && !token.may_come(false));
        token.take(&Way::Env("BOT".to_owned()), Err(TokenError::Env));
        assert!(!token.may_come(true) && token.pause().is_none(), "no variable comes later");
        let token = Token::by(Some(Way::Command("pass".to_owned())));
        assert_eq!(token.takes_ms(), 15_000);
    }

    #[tokio::test]
    async fn a_file_that_hangs_is_told_and_read_again_when_it_hangs_no_more() {
        let way = Way::File("/far".to_owned());
        let mut readers = Readers::default();
        let (hangs, hung) = std::sync::mpsc::channel::<()>();
        let limit = Duration::from_millis(10);
        let stuck = move |_: &AtomicBool| {
            let _ = hung.recv();
            good()
        };
        let read = readers.read(&way, limit, stuck, std::future::pending()).await;
        let late = TokenError::NotRead("it did not come within 0 s".to_owned());
        assert_eq!(read, Some(Err(late.clone())));
        // No second one goes in there after it; elsewhere it may be better.
        let other = |_: &AtomicBool| -> Result<Secret, TokenError> { panic!("two at a time") };
        let long = Duration::from_secs(60);
        assert_eq!(readers.read(&way, limit, other, std::future::pending()).await, Some(Err(late)));
        let near = Way::File("/near".to_owned());
        assert_eq!(readers.read(&near, long, |_| good(), std::future::pending()).await, Some(good()));
        drop(hangs);
        while readers.inside.iter().any(|(_, thread)| !thread.is_finished()) {
            tokio::task::yield_now().await;
        }
        assert_eq!(readers.read(&way, long, |_| good(), std::future::pending()).await, Some(good()));
        assert_eq!(readers.read(&way, long, |_| good(), std::future::pending()).await, Some(good()));
        // One that nobody wants any more is stopped.
        let stops = |stop: &AtomicBool| {
            while !stop.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            good()
        };
        assert_eq!(readers.read(&way, long, stops, std::future::ready(())).await, None);
        assert!(readers.inside.is_empty());

        // Not reached is not gone: the token that it gave before stays in use.
        let mut token = Token::by(Some(way.clone()));
        token.take(&way, good());
        token.take(&way, Err(TokenError::NotRead("it did not come within 15 s".to_owned())));
        assert!(token.secret().is_some() && token.notice().is_some());
    }
}
