//! `askd setup`: for ACP clients see `setup_client`; `askd setup claude-code` puts the hooks into the person's settings, shows what it would do, takes them out again.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use askd_client::{daemon, make_private_directory};
use askd_hook::claude::settings::{
    Hooking, Manifest, PERMISSION_TIMEOUT_SECS, hidden_asks, inspect, install, uninstall,
};
use sha2::{Digest, Sha256};

use crate::claude;
use crate::cli::{SetupAgent, SetupArgs};
use crate::clients::Client;
use crate::context::Desk;
use crate::diff::diff;
use crate::failure::{Done, Failure, status};
use crate::out::{self, safe};
use crate::replace::Target;

use super::{setup_client, setup_telegram};

pub(crate) fn setup(desk: &Desk, args: &SetupArgs) -> Done {
    if !args.undo && !args.dry_run {
        // What it installs starts daemons.
        desk.keep_surroundings();
    }
    match args.agent {
        SetupAgent::ClaudeCode => {}
        SetupAgent::Zed => return setup_client::setup(desk, args, Client::Zed),
        SetupAgent::Acpx => return setup_client::setup(desk, args, Client::Acpx),
        SetupAgent::Pi => return super::setup_pi::setup(desk, args),
        SetupAgent::Telegram => return setup_telegram::setup(desk, args),
        SetupAgent::Acp if args.undo => {
            let text = "askd setup acp changes no file, so there is nothing to take out";
            out::print_line(&format!("{text}: put the agent's own command back in your client"))?;
            return Ok(status::OK);
        }
        SetupAgent::Acp => return setup_client::print(desk, &args.command),
    }
    let file = claude::config_dir()?.join("settings.json");
    let target = Target::read(&file).map_err(|error| about(&file, &error))?;
    let kept = Kept::of(desk, &target, "claude-code");
    if args.undo { undo(args, &file, &target, &kept) } else { put_in(desk, args, &file, &target, &kept) }
}

fn put_in(desk: &Desk, args: &SetupArgs, file: &Path, target: &Target, kept: &Kept) -> Done {
    let exe = daemon::own_exe()
        .map(|askd| daemon::hook_exe(&askd))
        .ok_or_else(|| Failure::unavailable("askd's own program file is not known"))?;
    let hooking =
        Hooking { exe: &exe, places: &desk.places, timeout_secs: PERMISSION_TIMEOUT_SECS, owner: None };
    let previous = kept.read()?;
    let manifest = install(target.text.as_deref(), &hooking, previous.as_ref()).map_err(|error| {
        let todo = "nothing was changed; put it right (JSON has no comments) and run this again";
        Failure::wrong_use(format!("{}: {error}; {todo}", named(file)))
    })?;
    let changes = diff(target.text.as_deref().unwrap_or_default(), &manifest.installed);
    if args.dry_run {
        let text = if changes.is_empty() {
            format!("{} has everything already; nothing would be changed\n", named(file))
        } else {
            format!("{} would be changed:\n{changes}", named(file))
        };
        out::print(&text)?;
        advise(&manifest.installed)?;
        return Ok(status::OK);
    }
    if changes.is_empty() {
        out::print_line(&format!("{} has everything already; nothing was changed", named(file)))?;
    } else {
        // Without it the way back would not be exact, so it comes first.
        kept.write(&manifest)?;
        target.write(Some(&manifest.installed)).map_err(|error| about(file, &error))?;
        out::print_line(&format!("wrote askd's hooks into {}", named(file)))?;
        out::print_line(&format!(
            "they start {}; sessions that run already keep what they began with",
            named(&exe)
        ))?;
        out::print_line("undo: askd setup claude-code --undo")?;
    }
    advise(&manifest.installed)?;
    Ok(status::OK)
}

fn undo(args: &SetupArgs, file: &Path, target: &Target, kept: &Kept) -> Done {
    let nothing = || format!("{} has no hooks of askd; nothing was changed", named(file));
    let Some(text) = &target.text else {
        kept.forget(args.dry_run)?;
        out::print_line(&nothing())?;
        return Ok(status::OK);
    };
    let manifest = kept.read()?;
    let left = uninstall(text, manifest.as_ref())
        .map_err(|error| Failure::wrong_use(format!("{}: {error}; nothing was changed", named(file))))?;
    let (would, did) = match &left {
        Some(left) if left == text => (nothing(), nothing()),
        Some(left) => (
            format!("{} would be changed:\n{}", named(file), diff(text, left).trim_end()),
            format!("took askd's hooks out of {}", named(file)),
        ),
        None => (
            format!("{} would be removed: only askd's hooks are in it, and setup made it", named(file)),
            format!("removed {}: only askd's hooks were in it, and setup had made it", named(file)),
        ),
    };
    if args.dry_run {
        out::print_line(&would)?;
        return Ok(status::OK);
    }
    if left.as_deref() != Some(text) {
        target.write(left.as_deref()).map_err(|error| about(file, &error))?;
    }
    kept.forget(false)?;
    out::print_line(&did)?;
    Ok(status::OK)
}

/// What keeps asks from askd, said on the spot.
fn advise(installed: &str) -> Result<(), Failure> {
    let Ok(findings) = inspect(installed) else { return Ok(()) };
    if findings.hooks_disabled {
        out::print_line(
            "warning: disableAllHooks is on in these settings: no hook runs until it is taken out",
        )?;
    }
    let version = claude::on_path("claude").as_deref().and_then(claude::version);
    if let Some(why) = hidden_asks(findings.default_mode.as_deref(), version.as_deref()) {
        out::print_line(&format!("warning: {why}"))?;
    }
    Ok(())
}

pub(super) fn named(path: &Path) -> String {
    safe(&path.to_string_lossy())
}

pub(super) fn about(file: &Path, error: &io::Error) -> Failure {
    Failure::unavailable(format!("{}: {}", named(file), out::one_line(&error.to_string())))
}

/// Where the text from before the installation is kept, for each settings file its own.
pub(super) struct Kept {
    dir: PathBuf,
    file: PathBuf,
}

impl Kept {
    pub(super) fn of(desk: &Desk, target: &Target, what: &str) -> Self {
        use std::os::unix::ffi::OsStrExt;
        let dir = desk.places.state_dir().join("setup");
        let hash = Sha256::digest(target.path().as_os_str().as_bytes());
        let name: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let file = dir.join(format!("{what}-{name}.json"));
        Self { dir, file }
    }

    pub(super) fn read(&self) -> Result<Option<Manifest>, Failure> {
        match fs::read(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(about(&self.file, &error)),
            // A broken one is as good as none: what is ours is known by itself.
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        }
    }

    pub(super) fn write(&self, manifest: &Manifest) -> Result<(), Failure> {
        make_private_directory(&self.dir)?;
        let text = serde_json::to_vec(manifest).map_err(|error| Failure::unavailable(error.to_string()))?;
        let new = self.file.with_extension("new");
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&new);
        let done = file.and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&new, &self.file)
        });
        done.map_err(|error| about(&self.file, &error))
    }

    pub(super) fn forget(&self, dry_run: bool) -> Result<(), Failure> {
        if dry_run {
            return Ok(());
        }
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(about(&self.file, &error)),
            _ => Ok(()),
        }
    }
}
