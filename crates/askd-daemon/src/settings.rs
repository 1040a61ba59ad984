//! The config as the daemon acts on it: read at the start, read again when an edit is seen (`edits`) and before an ask
//! when the file has changed, and never looser than what a person accepted.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use askd_config::{
    BackgroundDeny, Config, ConfigErrors, Effective, HoldBackground, Layers, Origin, Secret, TimedDefault,
    Unreachable, Way,
};
use askd_core::settings as core;
use askd_core::{Command, Decision, Refusal};
use askd_wire::Loosening;
use tokio::sync::Notify;

use crate::dropped::{Dropped, Pair};
use crate::engine::Engine;
use crate::publish::{Hub, What};
use crate::token::Token;

/// Where settings come from, besides the file.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    pub(crate) file: PathBuf,
    /// The environment counts only for a daemon that a person started.
    pub(crate) env: bool,
    pub(crate) journal_flag: Option<String>,
    pub(crate) no_surfaces: bool,
}

impl Sources {
    pub(crate) fn load(&self) -> Result<Config, ConfigErrors> {
        self.load_with(std::env::vars_os())
    }

    /// The same with the environment of another daemon.
    pub(crate) fn load_with(
        &self,
        env: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Config, ConfigErrors> {
        let mut layers = Layers::new().file(&self.file);
        if self.env {
            layers = layers.env(env);
        }
        if let Some(url) = &self.journal_flag {
            layers = layers.flag("--journal", "journal.url", url);
        }
        layers.load()
    }

    /// What the core is told. A timeout that nobody set does not deny for an agent that can ask by itself.
    pub(crate) fn for_core(&self, effective: &Effective, config: &Config, token: &Token) -> core::Settings {
        let from = &effective.settings;
        // A place whose token is on the way counts too: an answer may wait there.
        let awaits_token = effective.awaits_token && token.may_come(self.env);
        let usual = core::Settings::default();
        let is_set = |key: &str| {
            config.origins().any(|(known, origin)| known.name == key && *origin != Origin::Default)
        };
        let secs = |s: u64| s.saturating_mul(1000);
        core::Settings {
            background_timeout_ms: secs(from.permissions.background_timeout_secs),
            background_default: decision(from.permissions.background_default),
            safety_timeout_ms: secs(from.permissions.safety_timeout_secs),
            safety_default: decision(from.permissions.safety_default),
            late_answer_ms: secs(from.permissions.late_answer_secs),
            background_deny_stops: from.permissions.background_deny == BackgroundDeny::Stop,
            queue_cap: u32::try_from(from.permissions.queue_cap).unwrap_or(u32::MAX),
            skip: from.permissions.dangerously_skip_permissions,
            remote_timeout_ms: secs(from.remote.timeout_secs),
            remote_action: decision(from.remote.timeout_action),
            background_timeout_is_set: is_set("permissions.background_timeout_secs"),
            safety_timeout_is_set: is_set("permissions.safety_timeout_secs"),
            unreachable: match from.permissions.unreachable {
                Unreachable::WhenNoSurface => core::Unreachable::WhenNoSurface,
                Unreachable::WhenNoneAttached => core::Unreachable::WhenNoneAttached,
            },
            no_surfaces: self.no_surfaces,
            remotes: u32::from(!self.no_surfaces && (from.telegram.is_complete() || awaits_token)),
            // The time to look for answers there begins when the token is there.
            wake_hold_ms: usual.wake_hold_ms + if awaits_token { token.takes_ms() } else { 0 },
            hold_background: match from.hook.hold_background {
                HoldBackground::Auto => core::HoldBackground::Auto,
                HoldBackground::Always => core::HoldBackground::Always,
                HoldBackground::Never => core::HoldBackground::Never,
            },
            ..usual
        }
    }
}

fn decision(from: TimedDefault) -> Decision {
    match from {
        TimedDefault::Allow => Decision::Allow,
        TimedDefault::Deny => Decision::Deny,
    }
}

/// Whoever acts on settings beside the daemon. It is called from the daemon's tasks and must not block.
#[derive(Clone)]
pub struct SettingsWatch(pub Arc<dyn Fn(&InForce) + Send + Sync>);

impl std::fmt::Debug for SettingsWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SettingsWatch").finish_non_exhaustive()
    }
}

/// What is acted on, with what it leads to.
#[derive(Debug, Clone)]
pub struct InForce {
    pub settings: askd_config::Settings,
    /// The token that `settings.telegram.token` is the fingerprint of.
    pub token: Option<Secret>,
}

/// The way to the token. A command is one once a person accepted it.
fn way(config: &Config, accepted: &BTreeSet<(String, String)>) -> Option<Way> {
    Way::of(&askd_config::effective(config.settings(), accepted).settings.telegram)
}

/// What is in force of a config, with the token that was read.
fn effective(config: &Config, accepted: &BTreeSet<(String, String)>, token: &Token) -> Effective {
    let mut settings = config.settings().clone();
    settings.telegram.token = token.secret().map(Secret::fingerprint);
    askd_config::effective(&settings, accepted)
}

/// The settings in force, and what waits for a person.
pub(crate) struct Live {
    sources: Sources,
    watch: Option<SettingsWatch>,
    now: Mutex<Known>,
    /// Two readings at a time could leave the older one in force.
    reading: tokio::sync::Mutex<()>,
    token_news: Notify,
    /// What a person accepts is not dropped by an attempt that began before.
    accepting: tokio::sync::Mutex<()>,
    dropped_news: Notify,
}

struct Known {
    config: Config,
    /// What is acted on, whatever the file says.
    in_force: askd_config::Settings,
    token: Token,
    waiting: Vec<askd_config::Loosening>,
    dropped: Dropped,
    /// Why the file that is there is not acted on.
    broken: Option<String>,
    /// Identity of the file that was read.
    file: Option<(u64, i64, i64, u64)>,
}

impl Live {
    /// `config` was read from `sources` at the start. Beside it what is in force at first, without a token.
    pub(crate) fn new(
        sources: Sources,
        config: Config,
        accepted: &BTreeSet<(String, String)>,
        watch: Option<SettingsWatch>,
    ) -> (Self, Effective) {
        let token = Token::by(way(&config, accepted));
        let effective = effective(&config, accepted, &token);
        let mut dropped = Dropped::default();
        dropped.add(&effective.obsolete);
        let known = Known {
            in_force: effective.settings.clone(),
            token,
            waiting: effective.waiting.clone(),
            dropped,
            broken: None,
            file: stamp(&sources.file),
            config,
        };
        let live = Self {
            sources,
            watch,
            now: Mutex::new(known),
            reading: tokio::sync::Mutex::default(),
            token_news: Notify::new(),
            accepting: tokio::sync::Mutex::default(),
            dropped_news: Notify::new(),
        };
        (live, effective)
    }

    pub(crate) fn for_core(&self, effective: &Effective) -> core::Settings {
        self.now
            .lock()
            .map(|known| self.sources.for_core(effective, &known.config, &known.token))
            .unwrap_or_default()
    }

    /// Tells the settings in force to whoever acts on them beside the daemon.
    pub(crate) fn tell(&self) {
        let told = self.now.lock().ok().map(|known| {
            // A token may have been read since then, and nobody has looked yet whether it was accepted.
            let telegram = Some(&known.in_force.telegram).filter(|telegram| telegram.is_complete());
            let accepted = telegram.and_then(|telegram| telegram.token.as_ref());
            let token = known.token.secret().filter(|token| accepted == Some(&token.fingerprint()));
            InForce { settings: known.in_force.clone(), token: token.cloned() }
        });
        if let (Some(watch), Some(in_force)) = (&self.watch, told) {
            (watch.0)(&in_force);
        }
    }

    /// Telegram is configured, and a person accepted that, or why it cannot be; what is wrong with its token.
    pub(crate) fn telegram(&self) -> Option<Option<String>> {
        let known = self.now.lock().ok().filter(|_| !self.sources.no_surfaces)?;
        let trouble = known.token.trouble();
        (trouble.is_some() || known.token.is_pending() || known.in_force.telegram.is_complete())
            .then_some(trouble)
    }

    /// The file that is there is not acted on.
    pub(crate) fn is_broken(&self) -> bool {
        self.now.lock().is_ok_and(|known| known.broken.is_some())
    }

    /// What waits for a person may not be all: the token is being read.
    pub(crate) fn is_reading(&self) -> bool {
        self.now.lock().is_ok_and(|known| known.token.is_pending())
    }

    /// Somebody looks at how askd is. `refused`: the bot's server does not take the token.
    pub(crate) fn look_again(&self, refused: bool) {
        if self.with_token(|token| token.look_again(refused)) == Some(true) {
            self.token_news.notify_one();
        }
    }

    /// Variables of the environment are those of a person.
    pub(crate) fn env_counts(&self) -> bool {
        self.sources.env
    }

    pub(crate) fn token_news(&self) -> &Notify {
        &self.token_news
    }

    pub(crate) fn with_token<T>(&self, look: impl FnOnce(&mut Token) -> T) -> Option<T> {
        self.now.lock().ok().map(|mut known| look(&mut known.token))
    }

    pub(crate) fn dropped_news(&self) -> &Notify {
        &self.dropped_news
    }

    pub(crate) fn with_dropped<T>(&self, look: impl FnOnce(&mut Dropped) -> T) -> Option<T> {
        self.now.lock().ok().map(|mut known| look(&mut known.dropped))
    }

    /// Writes down what is accepted no more; whether all of it is written down.
    pub(crate) async fn write_dropped(&self, engine: &Engine) -> bool {
        loop {
            let _one = self.accepting.lock().await;
            let next = self.with_dropped(|dropped| dropped.pairs().first().cloned()).flatten();
            let Some(pair) = next else { return true };
            if self.drop_one(&pair, engine).await.is_err() {
                return false;
            }
        }
    }

    async fn drop_one(&self, pair: &Pair, engine: &Engine) -> Result<(), Refusal> {
        let (key, value) = pair.clone();
        let done = engine.run(Command::DropLoosening { key, value }).await;
        self.with_dropped(|dropped| match &done.reply {
            Ok(_) => dropped.remove(pair),
            Err(refusal) => dropped.failed(refusal.to_string()),
        });
        done.reply.map(drop)
    }

    /// A person's yes to something that waits.
    pub(crate) async fn accept(&self, pair: Pair, engine: &Engine, hub: &Hub) -> Result<(), Refusal> {
        {
            let _one = self.accepting.lock().await;
            // A yes of before that is still written down is not this one.
            if self.with_dropped(|dropped| dropped.pairs().contains(&pair)) == Some(true) {
                self.drop_one(&pair, engine).await?;
            }
            let (key, value) = pair;
            engine.run(Command::AcceptLoosening { key, value, by: "you".to_owned() }).await.reply?;
        }
        self.reconsider(engine, hub).await;
        Ok(())
    }

    pub(crate) fn file(&self) -> &Path {
        &self.sources.file
    }

    pub(crate) fn waiting(&self) -> Vec<Loosening> {
        let view = |l: &askd_config::Loosening| Loosening {
            key: l.key.to_owned(),
            value: l.value.clone(),
            meaning: Some(format!("in force: {}; {}", l.tight_value, l.meaning)),
        };
        self.now.lock().map(|known| known.waiting.iter().map(view).collect()).unwrap_or_default()
    }

    /// What a person should know of the settings, besides what waits.
    pub(crate) fn notices(&self) -> Vec<String> {
        let Ok(known) = self.now.lock() else { return Vec::new() };
        let broken = known.broken.iter().cloned().chain(known.dropped.notice());
        broken.chain(known.token.notice()).chain(askd_config::warnings(&known.in_force)).collect()
    }

    /// The same, with what waits for a person.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut all = self.notices();
        if let Ok(known) = self.now.lock() {
            all.extend(known.token.trouble().map(|trouble| format!("Telegram does not work: {trouble}")));
            all.extend(known.waiting.iter().map(ToString::to_string));
        }
        all
    }

    /// Reads the file again when it is another one than last time. A broken file changes nothing and is told.
    pub(crate) async fn refresh(&self, engine: &Engine, hub: &Hub) {
        let is_known = |file| self.now.lock().is_ok_and(|known| known.file == file);
        if is_known(stamp(&self.sources.file)) {
            return;
        }
        let _one = self.reading.lock().await;
        let file = stamp(&self.sources.file);
        if is_known(file) {
            return;
        }
        match self.sources.load() {
            Ok(config) => {
                let before = self.in_force();
                self.adopt(config, true, engine, hub).await;
                let after = self.in_force();
                if before.0 != after.0 {
                    let text = "the config was changed: it is in force for asks made from now on";
                    hub.send(What::Notice(text.to_owned()));
                } else if before.1 {
                    hub.send(What::Notice("the config is valid again".to_owned()));
                }
            }
            Err(errors) => {
                let text =
                    format!("the config was changed and is not valid; the old settings stay:\n{errors}");
                tracing::warn!("{text}");
                hub.send(What::Notice(text.clone()));
                if let Ok(mut known) = self.now.lock() {
                    known.broken = Some(text);
                }
            }
        }
        // Only now: an ask that comes in between reads it for itself, instead of relying on the old settings.
        if let Ok(mut known) = self.now.lock() {
            known.file = file;
        }
    }

    /// Puts settings into force again after a person accepted one, or the token was read.
    pub(crate) async fn reconsider(&self, engine: &Engine, hub: &Hub) {
        let _one = self.reading.lock().await;
        let config = self.now.lock().ok().map(|known| known.config.clone());
        if let Some(config) = config {
            self.adopt(config, false, engine, hub).await;
        }
    }

    /// The settings that are acted on, and whether the file is broken.
    fn in_force(&self) -> (Option<askd_config::Settings>, bool) {
        let known = self.now.lock().ok();
        (known.as_ref().map(|k| k.in_force.clone()), known.is_some_and(|k| k.broken.is_some()))
    }

    async fn adopt(&self, config: Config, again: bool, engine: &Engine, hub: &Hub) {
        // Looked at first: what the journal takes meanwhile is not among the accepted any more.
        let dropped = self.with_dropped(|dropped| dropped.pairs().clone()).unwrap_or_default();
        let accepted = &engine.loosenings().await - &dropped;
        let (effective, told) = {
            let Ok(mut known) = self.now.lock() else { return };
            if known.token.set_way(way(&config, &accepted), again) {
                self.token_news.notify_one();
            }
            let effective = effective(&config, &accepted, &known.token);
            let is_new = |waits: &&askd_config::Loosening| !known.waiting.contains(waits);
            let told: Vec<String> =
                effective.waiting.iter().filter(is_new).map(ToString::to_string).collect();
            known.in_force = effective.settings.clone();
            known.broken = None;
            known.waiting = effective.waiting.clone();
            known.dropped.add(&effective.obsolete);
            known.config = config;
            (effective, told)
        };
        engine.set_settings(self.for_core(&effective));
        self.tell();
        // What is no longer asked for has to be accepted anew when it comes back.
        if !effective.obsolete.is_empty() {
            self.dropped_news.notify_one();
        }
        for text in told {
            hub.send(What::Notice(text));
        }
    }
}

fn stamp(path: &PathBuf) -> Option<(u64, i64, i64, u64)> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len()))
}
