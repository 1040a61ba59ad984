//! A world of its own for one test: a temporary home with settings, a project folder, and askd under one directory.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::Model;
use crate::patience::until;
use crate::processes;

/// Any text will do: the scripted model does not look at it.
const API_KEY: &str = "sk-ant-only-the-scripted-model-sees-this";

/// An ask as `askd ls --json` prints it, as far as the tests look.
#[derive(Clone, Debug, Deserialize)]
pub struct Ask {
    pub id: String,
    pub handle: String,
    pub state: String,
    pub digest: String,
    pub attendance: String,
    pub action: Value,
    pub lineage: Lineage,
    pub options: Vec<Choice>,
    /// What the deadline would answer.
    pub default: Option<String>,
    pub requester: RequesterLink,
    pub outcome: Option<Outcome>,
    pub delivery: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Choice {
    pub id: String,
    pub label: String,
    pub kind: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Lineage {
    pub agent: String,
    pub session: String,
    pub root: String,
    pub subagent: Option<Subagent>,
    pub tool_call: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Subagent {
    pub name: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub work_id: String,
    pub depth: Option<u32>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct RequesterLink {
    pub link: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Outcome {
    pub outcome: String,
    pub cause: String,
    pub source: Option<String>,
    pub message: Option<String>,
}

/// A session as `askd sessions --json` prints it.
#[derive(Clone, Debug, Deserialize)]
pub struct Session {
    pub agent: String,
    pub session: String,
    pub waiting: u32,
    /// The live ones.
    pub subagents: Vec<Subagent>,
}

impl Ask {
    /// The shell command of the action.
    pub fn command(&self) -> &str {
        self.action["input"]["command"].as_str().unwrap_or_default()
    }

    /// Outcome and cause of a settled ask.
    pub fn settled(&self) -> Option<(&str, &str)> {
        self.outcome.as_ref().map(|outcome| (outcome.outcome.as_str(), outcome.cause.as_str()))
    }
}

/// How a command of askd ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// The world; its processes and files are gone when it is dropped.
pub struct World {
    daemon: Option<Child>,
    askd: PathBuf,
    // Last: the directory goes after everything in it has ended.
    dir: tempfile::TempDir,
}

impl World {
    /// A home in which Claude Code asks before it acts, and no daemon yet.
    pub fn new() -> Result<Self> {
        let world = Self::bare()?;
        world.write_settings(&json!({"permissions": {"defaultMode": "default"}}))?;
        Ok(world)
    }

    /// A home without settings.
    pub fn bare() -> Result<Self> {
        // The path stays short: socket paths have about 100 bytes.
        let dir = tempfile::Builder::new().prefix("askd-").tempdir_in("/tmp")?;
        let world = Self { daemon: None, askd: askd_binary()?, dir };
        for place in [world.project(), world.home().join(".claude"), world.askd_dir(), world.file("tmp")] {
            fs::create_dir_all(place)?;
        }
        let project = world.project().display().to_string();
        let approved = API_KEY.get(API_KEY.len() - 20..).unwrap_or(API_KEY);
        // What the agent's first screens would have asked.
        let first_run = json!({
            "hasCompletedOnboarding": true,
            "lastOnboardingVersion": "9.9.9",
            "theme": "dark",
            "customApiKeyResponses": {"approved": [approved], "rejected": []},
            "projects": {project: {"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
        });
        fs::write(world.home().join(".claude.json"), first_run.to_string())?;
        Ok(world)
    }

    /// [`World::new`] with a running daemon and the hooks set up.
    pub fn with_askd() -> Result<Self> {
        let mut world = Self::new()?;
        world.start_daemon()?;
        world.set_up()?;
        Ok(world)
    }

    /// A file or folder directly in the world.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The person's home.
    pub fn home(&self) -> PathBuf {
        self.file("home")
    }

    /// The folder that the agents work in.
    pub fn project(&self) -> PathBuf {
        self.file("project")
    }

    /// Where everything of askd is.
    pub fn askd_dir(&self) -> PathBuf {
        self.file("askd")
    }

    /// The program under test.
    pub fn askd(&self) -> &Path {
        &self.askd
    }

    /// The person's Claude Code settings.
    pub fn settings(&self) -> PathBuf {
        self.home().join(".claude/settings.json")
    }

    /// Replaces the person's Claude Code settings.
    pub fn write_settings(&self, settings: &Value) -> Result<()> {
        Ok(fs::write(self.settings(), serde_json::to_string_pretty(settings)? + "\n")?)
    }

    /// Whether the agents have made this file in the project.
    pub fn made(&self, name: &str) -> bool {
        self.project().join(name).exists()
    }

    /// Waits for a file in the project.
    pub fn wait_made(&self, name: &str) -> Result<()> {
        until(&format!("the file {name}"), || Ok(self.made(name).then_some(())))
    }

    /// Waits until Claude has this call of a session on disk, from where a resumed one goes on.
    pub fn wait_kept(&self, session: &str, call: &str) -> Result<()> {
        let projects = self.home().join(".claude/projects");
        until(&format!("{call} in the transcript of {session}"), || {
            let kept = fs::read_dir(&projects)?.flatten().any(|project| {
                let transcript = project.path().join(format!("{session}.jsonl"));
                fs::read_to_string(transcript).is_ok_and(|text| text.contains(call))
            });
            Ok(kept.then_some(()))
        })
    }

    /// The whole environment of an agent that talks to `model`.
    pub fn agent_env(&self, model: &Model) -> Vec<(String, String)> {
        let mut env = self.env();
        let agent = [
            ("TMPDIR", self.file("tmp").display().to_string()),
            ("ANTHROPIC_BASE_URL", model.url()),
            ("ANTHROPIC_API_KEY", API_KEY.to_owned()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
            ("DISABLE_AUTOUPDATER", "1".to_owned()),
            ("DISABLE_TELEMETRY", "1".to_owned()),
            ("DISABLE_ERROR_REPORTING", "1".to_owned()),
        ];
        env.extend(agent.map(|(name, value)| (name.to_owned(), value)));
        env
    }

    /// The whole environment of a person's shell.
    pub fn env(&self) -> Vec<(String, String)> {
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
        let env = [
            ("PATH", path),
            ("HOME", self.home().display().to_string()),
            ("LANG", "C.UTF-8".to_owned()),
            ("TERM", "dumb".to_owned()),
            ("ASKD_DIR", self.askd_dir().display().to_string()),
        ];
        env.map(|(name, value)| (name.to_owned(), value)).into()
    }

    // --- askd

    /// Runs a command of askd as the person.
    pub fn run(&self, args: &[&str]) -> Result<Ran> {
        Ok(Ran::of(&self.command(args).output().context("askd cannot be started")?))
    }

    /// Runs a command of askd as the person, with this on its standard input.
    pub fn run_with(&self, args: &[&str], stdin: &[u8]) -> Result<Ran> {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("askd cannot be started")?;
        let mut pipe = child.stdin.take().context("no standard input")?;
        let bytes = stdin.to_owned();
        // A program that has read enough closes its end; that is its own affair.
        let feeder = thread::spawn(move || drop(pipe.write_all(&bytes)));
        let output = child.wait_with_output()?;
        drop(feeder.join());
        Ok(Ran::of(&output))
    }

    /// A command of askd, ready to start as the person.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.askd);
        command.args(args).env_clear().envs(self.env()).current_dir(self.home()).stdin(Stdio::null());
        command
    }

    /// Runs a command that has to succeed.
    pub fn must(&self, args: &[&str]) -> Result<String> {
        let ran = self.run(args)?;
        if ran.code != 0 {
            bail!("askd {args:?}: {ran:?}\n{}", self.daemon_said());
        }
        Ok(ran.stdout)
    }

    /// Writes the hooks into the person's settings.
    pub fn set_up(&self) -> Result<()> {
        self.must(&["setup", "claude-code"]).map(drop)
    }

    /// Starts a daemon and waits until it serves. A waiting hook may be faster and start one by itself; then that
    /// one serves.
    pub fn start_daemon(&mut self) -> Result<()> {
        self.start_daemon_with(&[])
    }

    /// The same with more in its environment.
    pub fn start_daemon_with(&mut self, env: &[(&str, &str)]) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.file("daemon-said"))?;
        let mut command = self.command(&["daemon"]);
        command.envs(env.iter().copied());
        let mut child = command.stdout(log.try_clone()?).stderr(log).process_group(0).spawn()?;
        let pid = child.id();
        let served = until("a daemon that serves", || {
            let serves = self.daemon_pid()?;
            let ours = serves == pid || child.try_wait()?.is_some();
            Ok((ours && self.run(&["ls", "--json"])?.code == 0).then_some(()))
        });
        self.daemon = Some(child);
        served.with_context(|| self.daemon_said())
    }

    /// Ends the daemon that serves now as a power cut would.
    pub fn kill_daemon(&mut self) -> Result<()> {
        let pid = self.daemon_pid()?;
        processes::kill(pid)?;
        if let Some(mut child) = self.daemon.take().filter(|child| child.id() == pid) {
            child.wait()?;
        }
        until("the end of the daemon", || Ok((!processes::alive(pid)).then_some(())))
    }

    fn daemon_pid(&self) -> Result<u32> {
        let place: Value = serde_json::from_slice(&fs::read(self.askd_dir().join("state/daemon.json"))?)?;
        Ok(u32::try_from(place["pid"].as_u64().context("no process id in daemon.json")?)?)
    }

    /// What the daemon printed.
    pub fn daemon_said(&self) -> String {
        fs::read_to_string(self.file("daemon-said")).unwrap_or_default()
    }

    /// The open asks.
    pub fn open(&self) -> Result<Vec<Ask>> {
        Ok(serde_json::from_str(&self.must(&["ls", "--json"])?)?)
    }

    /// All asks, settled ones too.
    pub fn asks(&self) -> Result<Vec<Ask>> {
        Ok(serde_json::from_str(&self.must(&["ls", "--json", "--all"])?)?)
    }

    /// One ask as it now is.
    pub fn show(&self, id: &str) -> Result<Ask> {
        Ok(serde_json::from_str(&self.must(&["show", id, "--json"])?)?)
    }

    /// The live sessions.
    pub fn sessions(&self) -> Result<Vec<Session>> {
        Ok(serde_json::from_str(&self.must(&["sessions", "--json"])?)?)
    }

    /// The decision log, as text.
    pub fn log(&self) -> Result<String> {
        self.must(&["log", "--json"])
    }

    /// Waits for an open ask whose shell command contains `part`.
    pub fn ask(&self, part: &str) -> Result<Ask> {
        let found = until(&format!("an open ask with {part:?}"), || {
            Ok(self.open()?.into_iter().find(|ask| ask.command().contains(part)))
        });
        found.with_context(|| self.story())
    }

    /// Waits until this ask is as the test wants it.
    pub fn wait(&self, id: &str, what: &str, as_wanted: impl Fn(&Ask) -> bool) -> Result<Ask> {
        let found = until(what, || Ok(Some(self.show(id)?).filter(&as_wanted)));
        found.with_context(|| self.story())
    }

    /// Allows an ask as the person; returns the exit status.
    pub fn allow(&self, id: &str) -> Result<i32> {
        self.answer(&["allow", id])
    }

    /// Denies an ask as the person, with words; returns the exit status.
    pub fn deny(&self, id: &str, words: &str) -> Result<i32> {
        self.answer(&["deny", id, "-m", words])
    }

    fn answer(&self, args: &[&str]) -> Result<i32> {
        let ran = self.run(args)?;
        // For whoever reads a failed test.
        eprintln!("askd {args:?}: {ran:?}");
        Ok(ran.code)
    }

    fn story(&self) -> String {
        let asks = self.run(&["ls", "--json", "--all"]).map(|ran| ran.stdout).unwrap_or_default();
        format!("asks: {asks}\ndaemon: {}", self.daemon_said())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            drop(daemon.kill());
            drop(daemon.wait());
        }
        processes::sweep(self.dir.path());
    }
}

/// The binary that was built beside this test.
fn askd_binary() -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let profile = test.parent().and_then(Path::parent).context("the test is not in a target directory")?;
    let binary = profile.join("askd");
    if !binary.is_file() {
        bail!("there is no askd beside the tests. Run: cargo build -p askd");
    }
    Ok(binary)
}
