//! One askd of its own for one test: the real program, in a temporary directory that nothing else uses.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use askd_tests::processes;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Shared machines stall.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) struct World {
    dir: tempfile::TempDir,
}

/// Waits until `look` finds something.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let give_up = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < give_up, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl World {
    pub(crate) fn new() -> Self {
        // Socket paths must stay short.
        let dir = tempfile::Builder::new().prefix("askd-").tempdir_in("/tmp").unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    pub(crate) fn askd_dir(&self) -> PathBuf {
        self.path("askd")
    }

    /// askd with arguments, and nothing of this process's environment.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_askd")), args)
    }

    pub(crate) fn command_of(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.home())
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb")
            .env("ASKD_DIR", self.askd_dir())
            .current_dir(self.home())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        finish(self.command(args).output().unwrap())
    }

    /// The same with something on standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &str) -> Ran {
        self.run_program_with(Path::new(env!("CARGO_BIN_EXE_askd")), args, input)
    }

    pub(crate) fn run_program_with(&self, program: &Path, args: &[&str], input: &str) -> Ran {
        let mut command = self.command_of(program, args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It may have seen enough before it read this.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        finish(child.wait_with_output().unwrap())
    }

    /// Runs a command that has to succeed.
    pub(crate) fn must(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.out
    }

    /// Starts the daemon as a requester would, so that commands which start none find it.
    pub(crate) fn start(&self) {
        drop(self.spawn(&["daemon"]));
        until("a daemon", || (self.run(&["status"]).code == Some(0)).then_some(()));
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Running {
        Running::start(self.command(args))
    }

    /// `askd ask` with an input that this test can find again.
    pub(crate) fn ask(&self, command: &str, more: &[&str]) -> Running {
        let input = serde_json::json!({"command": command}).to_string();
        let args: Vec<&str> =
            ["ask", "--tool", "Bash", "--input", &input].iter().chain(more).copied().collect();
        self.spawn(&args)
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.must(args)).unwrap()
    }

    /// The open ask with this shell command.
    pub(crate) fn open(&self, command: &str) -> Value {
        until(&format!("an open ask for {command}"), || {
            let ran = self.run(&["ls", "--json"]);
            let asks: Vec<Value> = serde_json::from_str(&ran.out).ok()?;
            asks.into_iter().find(|ask| ask["action"]["input"]["command"] == command)
        })
    }

    pub(crate) fn handle(&self, command: &str) -> String {
        self.open(command)["handle"].as_str().unwrap().to_owned()
    }

    pub(crate) fn daemon_pid(&self) -> Option<Pid> {
        let text = fs::read(self.askd_dir().join("state/daemon.json")).ok()?;
        let file: Value = serde_json::from_slice(&text).ok()?;
        Pid::from_raw(i32::try_from(file["pid"].as_u64()?).ok()?)
    }

    /// Ends the daemon as a power cut would.
    pub(crate) fn kill_daemon(&self) {
        let pid = until("the daemon says who it is", || self.daemon_pid());
        kill_process(pid, Signal::KILL).unwrap();
    }

    /// An executable script.
    pub(crate) fn script(&self, path: &Path, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // A requester that is still there may be starting a daemon, which says who it is only later.
        processes::sweep(self.dir.path());
    }
}

fn finish(output: std::process::Output) -> Ran {
    Ran {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A program that is running, its lines as they come, and its input.
pub(crate) struct Running {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Every line so far.
    pub(crate) seen: Vec<String>,
    leave: bool,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        pump(child.stdout.take().unwrap(), sender.clone());
        pump(child.stderr.take().unwrap(), sender);
        // A daemon goes on when the test has seen that it serves; the world ends it.
        let leave = command.get_args().next().is_some_and(|arg| arg == "daemon");
        Self { input: child.stdin.take(), child, lines, seen: Vec::new(), leave }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits for a line that holds `part` and gives it.
    pub(crate) fn line(&mut self, part: &str) -> String {
        let give_up = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(give_up.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(part) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no line with {part:?} in {:#?}", self.seen)
                }
            }
        }
    }

    /// The same for one that may have come before.
    pub(crate) fn has_said(&mut self, part: &str) {
        if !self.seen.iter().any(|line| line.contains(part)) {
            self.line(part);
        }
    }

    pub(crate) fn type_raw(&mut self, text: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        input.flush().unwrap();
    }

    pub(crate) fn type_line(&mut self, line: &str) {
        self.type_raw(&format!("{line}\n"));
    }

    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end: exit status and everything it printed.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let status = until("its end", || self.child.try_wait().unwrap());
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.seen.push(line);
        }
        (status.code(), self.seen.join("\n"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.leave {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn pump(from: impl std::io::Read + Send + 'static, to: mpsc::Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            let Ok(line) = line else { return };
            if to.send(line).is_err() {
                return;
            }
        }
    });
}
