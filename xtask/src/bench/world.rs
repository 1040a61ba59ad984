//! The place where everything is measured: a directory on the disk of the workspace, the release build, a daemon.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::steps::target_dir;

/// How long a process may take to be ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// Directory, programs and how many samples.
pub(crate) struct World {
    dir: tempfile::TempDir,
    askd: PathBuf,
    /// The program that agents start, beside it.
    hook: PathBuf,
    /// The same program as it ships, linked statically.
    fixed: PathBuf,
    quick: bool,
}

/// A daemon in a directory of its own, ended with this value.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) ask: String,
    pub(crate) answer: String,
}

/// A child of this program that says `ready` and later its result, ended with this value.
pub(crate) struct Helper {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl World {
    pub(crate) fn new(root: &Path, quick: bool) -> Result<Self> {
        let target = target_dir(root);
        let askd = target.join("release/askd");
        if !askd.is_file() {
            bail!("{} is not built", askd.display());
        }
        let hook = target.join("release/askd-hook");
        if !hook.is_file() {
            bail!("{} is not built", hook.display());
        }
        let fixed = target.join("dist/askd-hook");
        if !fixed.is_file() {
            bail!("{} is not built", fixed.display());
        }
        // On the disk of the workspace: a directory in memory would make every commit free.
        let dir = tempfile::Builder::new().prefix("b").tempdir_in(&target)?;
        Ok(Self { dir, askd, hook, fixed, quick })
    }

    pub(crate) fn askd(&self) -> &Path {
        &self.askd
    }

    pub(crate) fn hook(&self) -> &Path {
        &self.hook
    }

    pub(crate) fn fixed(&self) -> &Path {
        &self.fixed
    }

    /// `many` samples, or a tenth of them for a first look.
    pub(crate) fn count(&self, many: usize) -> usize {
        if self.quick { many.div_ceil(10) } else { many }
    }

    /// How long to watch.
    pub(crate) fn span(&self, seconds: u64) -> Duration {
        Duration::from_secs(if self.quick { seconds.div_ceil(5) } else { seconds })
    }

    /// A new empty directory.
    pub(crate) fn place(&self, name: &str) -> Result<PathBuf> {
        let place = self.dir.path().join(name);
        fs::create_dir(&place).with_context(|| format!("{} cannot be made", place.display()))?;
        Ok(place)
    }

    /// A command without our environment: what an agent or a surface may have set there is no part of this.
    pub(crate) fn clean(program: &Path, place: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", place).env("ASKD_DIR", place);
        command
    }

    /// Starts a daemon in a new directory and waits until it can be asked.
    pub(crate) fn daemon(&self, name: &str) -> Result<Daemon> {
        self.daemon_with(name, "")
    }

    /// The same with this config.
    pub(crate) fn daemon_with(&self, name: &str, config: &str) -> Result<Daemon> {
        let place = self.place(name)?;
        fs::write(place.join("config.toml"), config)?;
        let log = fs::File::create(place.join("daemon.log"))?;
        let mut child = Self::clean(&self.askd, &place)
            .arg("daemon")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("the daemon cannot be started")?;
        let told = place.join("state/daemon.json");
        let start = Instant::now();
        loop {
            if let Some((ask, answer)) = sockets(&told) {
                return Ok(Daemon { child, ask, answer });
            }
            if let Some(status) = child.try_wait()? {
                let log = fs::read_to_string(place.join("daemon.log")).unwrap_or_default();
                bail!("the daemon ended with {status}: {}", log.trim());
            }
            if start.elapsed() > PATIENCE {
                let _ = child.kill();
                bail!("the daemon was not ready within {} s", PATIENCE.as_secs());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Starts a part of this program as a process of its own and waits until it is ready.
    pub(crate) fn helper(&self, args: &[&str]) -> Result<Helper> {
        let program = std::env::current_exe().context("this program has no path")?;
        let mut child = Self::clean(&program, self.dir.path())
            .arg("bench-part")
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("a helper cannot be started")?;
        let output = BufReader::new(child.stdout.take().context("a helper without output")?);
        let mut helper = Helper { child, output };
        let mut line = String::new();
        helper.output.read_line(&mut line)?;
        if line.trim() != "ready" {
            bail!("`{}` said {line:?} instead of ready", args.join(" "));
        }
        Ok(helper)
    }
}

fn sockets(told: &Path) -> Option<(String, String)> {
    let value: Value = serde_json::from_str(&fs::read_to_string(told).ok()?).ok()?;
    let path = |name: &str| value.get(name)?.as_str().map(str::to_owned);
    Some((path("ask_sock")?, path("answer_sock")?))
}

impl Daemon {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Helper {
    /// Waits until it ends by itself and gives what it printed after `ready`.
    pub(crate) fn result(mut self) -> Result<Value> {
        let mut text = String::new();
        self.output.read_to_string(&mut text)?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("a helper ended with {status}");
        }
        serde_json::from_str(text.trim()).with_context(|| format!("a helper printed {text:?}"))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
