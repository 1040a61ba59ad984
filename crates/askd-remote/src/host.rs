//! What lives in the daemon's process: starts, replaces and ends surfaces as the settings in force say.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use askd_client::Places;
use askd_config::{Secret, Settings, Telegram as Wanted};
use askd_words::Sessions;
use jiff::tz::TimeZone;

use crate::driver::{self, Running};
use crate::notify::{Command, Notify};
use crate::telegram::api::Api;
use crate::telegram::hands::{BotHands, Heard};
use crate::telegram::seal::Key;
use crate::telegram::text::Reader;
use crate::telegram::{Machine, Setup};

/// The settings that count here, with the token that they lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct InForce {
    telegram: Option<(Wanted, Secret)>,
    notify: String,
    /// Not for the eyes of commands.
    token_env: String,
}

/// A host of remote surfaces.
#[derive(Debug)]
pub struct Host {
    /// `None`: it is to end.
    settings: Mutex<Option<Sender<InForce>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Host {
    /// Starts its thread; nothing else happens before [`Host::set`].
    pub fn start(places: Places) -> std::io::Result<Self> {
        let (settings, changes) = channel();
        let thread =
            thread::Builder::new().name("remote".to_owned()).spawn(move || serve(&places, &changes))?;
        Ok(Self { settings: Mutex::new(Some(settings)), thread: Mutex::new(Some(thread)) })
    }

    /// Ends its surfaces and the commands that they run, and returns when they have ended.
    pub fn stop(&self) {
        drop(self.settings.lock().map(|mut settings| settings.take()));
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        let _ = thread.map(JoinHandle::join);
    }

    /// Tells it what is in force. Returns at once.
    pub fn set(&self, settings: &Settings, token: Option<&Secret>) {
        let telegram = token.filter(|_| settings.telegram.is_complete());
        let in_force = InForce {
            telegram: telegram.map(|token| (settings.telegram.clone(), token.clone())),
            notify: settings.notify.command.clone(),
            token_env: settings.telegram.token_env.clone(),
        };
        if let Ok(settings) = self.settings.lock()
            && let Some(settings) = settings.as_ref()
        {
            let _ = settings.send(in_force);
        }
    }
}

fn serve(places: &Places, changes: &Receiver<InForce>) {
    let mut telegram: Option<Running<Heard>> = None;
    let mut notify: Option<Running<()>> = None;
    let mut before: Option<InForce> = None;
    while let Ok(mut now) = changes.recv() {
        // Of several changes at once the last one counts.
        while let Ok(newer) = changes.try_recv() {
            now = newer;
        }
        if before.as_ref().map(|before| &before.telegram) != Some(&now.telegram) {
            if let Some(running) = telegram.take() {
                running.stop();
            }
            telegram = now.telegram.as_ref().and_then(|(wanted, token)| begin(places, wanted, token));
        }
        if before.as_ref().map(|before| (&before.notify, &before.token_env))
            != Some((&now.notify, &now.token_env))
        {
            if let Some(running) = notify.take() {
                running.stop();
            }
            if !now.notify.is_empty() {
                let hands = Command::new(&now.notify, &now.token_env);
                notify = driver::run(places.clone(), Notify::default(), hands).ok();
            }
        }
        before = Some(now);
    }
    if let Some(running) = telegram {
        running.stop();
    }
    if let Some(running) = notify {
        running.stop();
    }
}

fn begin(places: &Places, wanted: &Wanted, token: &Secret) -> Option<Running<Heard>> {
    let bot = token.expose().split(':').next().and_then(|bot| bot.parse().ok()).unwrap_or_default();
    let setup = Setup {
        bot,
        chats: wanted.chat_ids.clone(),
        users: wanted.user_ids.clone(),
        max_open: u32::try_from(wanted.max_open).unwrap_or(u32::MAX),
    };
    let home = std::env::home_dir().and_then(|home| home.into_os_string().into_string().ok());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let reader = Reader { sessions: Sessions::new(home, Some(host)), zone: TimeZone::system() };
    let machine = Machine::new(setup, reader, fresh_key()?);
    let api = Api::new(&wanted.api_url, &wanted.proxy, token.clone());
    let api = api.map_err(|error| tracing::warn!("Telegram: {error}")).ok()?;
    let hands = BotHands::new(api);
    let running = driver::run(places.clone(), machine, hands);
    running.map_err(|error| tracing::warn!("Telegram: no thread can be made: {error}")).ok()
}

fn fresh_key() -> Option<Key> {
    let mut key = Key::default();
    getrandom::fill(&mut key).map_err(|error| tracing::warn!("Telegram: no random bytes: {error}")).ok()?;
    Some(key)
}
