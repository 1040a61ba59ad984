//! The config as the daemon acts on it: read at the start, read again before an ask when the file has changed, and
//! never looser than what a person accepted.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Mutex;

use askd_config::{
    BackgroundDeny, Config, ConfigErrors, Effective, HoldBackground, Layers, Origin, TimedDefault,
    Unreachable,
};
use askd_core::settings as core;
use askd_core::{Command, Decision};
use askd_wire::Loosening;

use crate::engine::Engine;
use crate::publish::{Hub, What};

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
        let mut layers = Layers::new().file(&self.file);
        if self.env {
            layers = layers.env(std::env::vars_os());
        }
        if let Some(url) = &self.journal_flag {
            layers = layers.flag("--journal", "journal.url", url);
        }
        layers.load()
    }

    /// What the core is told. A timeout that nobody set does not deny for an agent that can ask by itself.
    pub(crate) fn for_core(&self, effective: &Effective, config: &Config) -> core::Settings {
        let from = &effective.settings;
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
            hold_background: match from.hook.hold_background {
                HoldBackground::Auto => core::HoldBackground::Auto,
                HoldBackground::Always => core::HoldBackground::Always,
                HoldBackground::Never => core::HoldBackground::Never,
            },
            ..core::Settings::default()
        }
    }
}

fn decision(from: TimedDefault) -> Decision {
    match from {
        TimedDefault::Allow => Decision::Allow,
        TimedDefault::Deny => Decision::Deny,
    }
}

/// The settings in force, and what waits for a person.
#[derive(Debug)]
pub(crate) struct Live {
    sources: Sources,
    now: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    config: Config,
    waiting: Vec<askd_config::Loosening>,
    notices: Vec<String>,
    /// Identity of the file that was read.
    file: Option<(u64, i64, i64, u64)>,
}

impl Live {
    /// `config` was read from `sources` at the start.
    pub(crate) fn new(sources: Sources, config: Config, effective: &Effective) -> Self {
        let known = Known {
            notices: askd_config::warnings(&effective.settings),
            waiting: effective.waiting.clone(),
            file: stamp(&sources.file),
            config,
        };
        Self { sources, now: Mutex::new(known) }
    }

    pub(crate) fn waiting(&self) -> Vec<Loosening> {
        let view = |l: &askd_config::Loosening| Loosening { key: l.key.to_owned(), value: l.value.clone() };
        self.now.lock().map(|known| known.waiting.iter().map(view).collect()).unwrap_or_default()
    }

    pub(crate) fn notices(&self) -> Vec<String> {
        let Ok(known) = self.now.lock() else { return Vec::new() };
        known.notices.iter().cloned().chain(known.waiting.iter().map(ToString::to_string)).collect()
    }

    /// Reads the file again when it is another one than last time. A broken file changes nothing and is told.
    pub(crate) async fn refresh(&self, engine: &Engine, hub: &Hub) {
        let file = stamp(&self.sources.file);
        if self.now.lock().is_ok_and(|known| known.file == file) {
            return;
        }
        match self.sources.load() {
            Ok(config) => self.adopt(config, engine, hub).await,
            Err(errors) => {
                let text =
                    format!("the config was changed and is not valid; the old settings stay:\n{errors}");
                tracing::warn!("{text}");
                hub.send(What::Notice(text.clone()));
                if let Ok(mut known) = self.now.lock() {
                    known.notices = vec![text];
                }
            }
        }
        // Only now: an ask that comes in between reads it for itself, instead of relying on the old settings.
        if let Ok(mut known) = self.now.lock() {
            known.file = file;
        }
    }

    /// Puts settings into force again after a person accepted one.
    pub(crate) async fn reconsider(&self, engine: &Engine, hub: &Hub) {
        let config = self.now.lock().ok().map(|known| known.config.clone());
        if let Some(config) = config {
            self.adopt(config, engine, hub).await;
        }
    }

    async fn adopt(&self, config: Config, engine: &Engine, hub: &Hub) {
        let accepted = engine.loosenings().await;
        let effective = askd_config::effective(config.settings(), &accepted);
        engine.set_settings(self.sources.for_core(&effective, &config));
        forget(engine, &effective.obsolete).await;
        for waiting in &effective.waiting {
            hub.send(What::Notice(waiting.to_string()));
        }
        if let Ok(mut known) = self.now.lock() {
            known.notices = askd_config::warnings(&effective.settings);
            known.waiting = effective.waiting;
            known.config = config;
        }
    }
}

/// What is no longer asked for has to be accepted anew when it comes back.
pub(crate) async fn forget(engine: &Engine, obsolete: &BTreeSet<(String, String)>) {
    for (key, value) in obsolete {
        engine.run(Command::DropLoosening { key: key.clone(), value: value.clone() }).await;
    }
}

fn stamp(path: &PathBuf) -> Option<(u64, i64, i64, u64)> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len()))
}
