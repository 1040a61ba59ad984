//! A program in a real terminal: a pseudo-terminal whose screen the test can read.

use std::io::{Read, Write};
use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use vt100::Parser;

use crate::agents::Version;
use crate::model::Model;
use crate::patience::until;
use crate::processes;
use crate::world::World;

const ROWS: NonZero<u16> = NonZero::new(45).unwrap();
const COLS: NonZero<u16> = NonZero::new(120).unwrap();

/// How long a pressed key may take to show.
const BETWEEN_PRESSES: Duration = Duration::from_millis(700);
const BETWEEN_PATIENT_PRESSES: Duration = Duration::from_secs(15);

/// A program in a terminal; it and its group end when this is dropped.
pub struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    keyboard: Box<dyn Write + Send>,
    screen: Arc<Mutex<Parser>>,
    /// Closing it hangs up the terminal.
    _master: Box<dyn MasterPty + Send>,
}

impl Terminal {
    /// Starts the agent's terminal UI in the world's project folder and waits until it takes input.
    pub fn agent(world: &World, version: Version, model: &Model) -> Result<Self> {
        let mut terminal = Self::run(&version.binary()?, &[], world.agent_env(model), &world.project())?;
        terminal.wait_for(&["❯"])?;
        // What is typed while the first screen is still being built is lost now and then; a draft that shows up
        // whole is proof that input is taken.
        terminal.keys("ready?")?;
        terminal.wait_for(&["ready?"])?;
        terminal.keys("\u{15}")?;
        terminal.wait_gone("ready?")?;
        Ok(terminal)
    }

    /// Starts any program in a terminal.
    pub fn run(
        program: &Path,
        args: &[&str],
        env: impl IntoIterator<Item = (String, String)>,
        dir: &Path,
    ) -> Result<Self> {
        let size = PtySize { rows: ROWS.get(), cols: COLS.get(), pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size)?;
        let mut command = CommandBuilder::new(program);
        command.args(args);
        command.env_clear();
        for (name, value) in env {
            command.env(name, value);
        }
        command.env("TERM", "xterm-256color");
        command.cwd(dir);
        let child = pair.slave.spawn_command(command).context("the program cannot be started")?;
        drop(pair.slave);
        let screen = Arc::new(Mutex::new(Parser::new(ROWS, COLS, 0)));
        let mut output = pair.master.try_clone_reader()?;
        let shown = Arc::clone(&screen);
        thread::spawn(move || {
            let mut bytes = [0; 16 * 1024];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap_or_else(PoisonError::into_inner).process(&bytes[..count]);
            }
        });
        let keyboard = pair.master.take_writer()?;
        Ok(Self { child, keyboard, screen, _master: pair.master })
    }

    /// The program's process.
    pub fn pid(&self) -> Result<u32> {
        self.child.process_id().ok_or_else(|| anyhow!("the program has no process id"))
    }

    /// What is on the screen now.
    pub fn text(&self) -> String {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner).screen().contents()
    }

    /// Types.
    pub fn keys(&mut self, keys: &str) -> Result<()> {
        self.keyboard.write_all(keys.as_bytes())?;
        self.keyboard.flush()?;
        Ok(())
    }

    /// Types a line and sends it once it is on the screen whole.
    pub fn enter(&mut self, line: &str) -> Result<()> {
        self.keys(line)?;
        self.wait_for(&[line])?;
        self.keys("\r")
    }

    /// Presses a key again and again until it has had its effect: a dialog that has just appeared takes no keys yet.
    pub fn press(&mut self, key: &str, effect: &str, seen: impl FnMut(&str) -> bool) -> Result<()> {
        self.press_every(BETWEEN_PRESSES, key, effect, seen)
    }

    /// The same for a key that means something else to what comes next: with so much time for its effect that a second
    /// press is for one that was not taken.
    pub fn press_patiently(&mut self, key: &str, effect: &str, seen: impl FnMut(&str) -> bool) -> Result<()> {
        self.press_every(BETWEEN_PATIENT_PRESSES, key, effect, seen)
    }

    fn press_every(
        &mut self,
        between: Duration,
        key: &str,
        effect: &str,
        mut seen: impl FnMut(&str) -> bool,
    ) -> Result<()> {
        let mut pressed: Option<Instant> = None;
        until(&format!("{key:?} to bring about: {effect}"), || {
            if seen(&self.text()) {
                return Ok(Some(()));
            }
            if pressed.is_none_or(|at| at.elapsed() > between) {
                self.keys(key)?;
                pressed = Some(Instant::now());
            }
            Ok(None)
        })
        .with_context(|| self.text())
    }

    /// Waits until all of these are on the screen.
    pub fn wait_for(&self, words: &[&str]) -> Result<()> {
        let shown = until(&format!("{words:?} on the screen"), || {
            let text = self.text();
            Ok(words.iter().all(|word| text.contains(word)).then_some(()))
        });
        shown.with_context(|| self.text())
    }

    /// Waits until this is not on the screen any more.
    pub fn wait_gone(&self, word: &str) -> Result<()> {
        let gone = until(&format!("{word:?} gone from the screen"), || {
            Ok((!self.text().contains(word)).then_some(()))
        });
        gone.with_context(|| self.text())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(pid) = self.child.process_id() {
            processes::kill_group(pid);
        }
        drop(self.child.wait());
    }
}
