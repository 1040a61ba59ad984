//! A program in a pseudo-terminal whose screen can be read.

use std::io::{Read, Write};
use std::num::NonZero;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};
use vt100::Parser;

use crate::world::{PATIENCE, World};

/// The program that runs the queue alone.
pub(crate) const QUEUE: &str = env!("CARGO_BIN_EXE_askd-queue");

/// What came out of the terminal.
struct Output {
    parser: Parser,
    raw: Vec<u8>,
    ended: bool,
}

pub(crate) struct Pty {
    child: Box<dyn Child + Send + Sync>,
    keyboard: Box<dyn Write + Send>,
    output: Arc<(Mutex<Output>, Condvar)>,
    master: Box<dyn MasterPty + Send>,
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

impl Pty {
    /// The queue of this world's daemon.
    pub(crate) fn queue(world: &World, columns: u16, rows: u16) -> Self {
        Self::run(world, columns, rows, &[QUEUE], &[])
    }

    pub(crate) fn run(
        world: &World,
        columns: u16,
        rows: u16,
        command: &[&str],
        env: &[(&str, &str)],
    ) -> Self {
        let pair = native_pty_system().openpty(size(columns, rows)).unwrap();
        let mut builder = CommandBuilder::new(command[0]);
        builder.args(&command[1..]);
        builder.env_clear();
        let path = std::env::var("PATH").unwrap();
        let dir = world.dir().to_str().unwrap();
        for (name, value) in [
            ("PATH", path.as_str()),
            ("HOME", dir),
            ("ASKD_DIR", dir),
            ("TERM", "xterm-256color"),
            ("LC_ALL", "C.UTF-8"),
            ("TZ", "UTC"),
        ]
        .into_iter()
        .chain(env.iter().copied())
        {
            builder.env(name, value);
        }
        builder.cwd(dir);
        let child = pair.slave.spawn_command(builder).unwrap();
        drop(pair.slave);
        let parser = Parser::new(NonZero::new(rows).unwrap(), NonZero::new(columns).unwrap(), 0);
        let output = Output { parser, raw: Vec::new(), ended: false };
        let output = Arc::new((Mutex::new(output), Condvar::new()));
        let shown = Arc::clone(&output);
        let mut reader = pair.master.try_clone_reader().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 16 * 1024];
            loop {
                let count = reader.read(&mut bytes).unwrap_or(0);
                let mut output = shown.0.lock().unwrap();
                output.parser.process(&bytes[..count]);
                output.raw.extend_from_slice(&bytes[..count]);
                output.ended = count == 0;
                shown.1.notify_all();
                if count == 0 {
                    break;
                }
            }
        });
        let keyboard = pair.master.take_writer().unwrap();
        Self { child, keyboard, output, master: pair.master }
    }

    pub(crate) fn keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Waits until the screen is as wanted.
    pub(crate) fn wait<T>(&self, what: &str, mut look: impl FnMut(&vt100::Screen) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let (lock, changed) = &*self.output;
        let mut output = lock.lock().unwrap();
        loop {
            if let Some(found) = look(output.parser.screen()) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited in vain for {what}:\n{}", output.parser.screen().contents());
            output = changed.wait_timeout(output, left).unwrap().0;
        }
    }

    pub(crate) fn sees(&self, text: &str) {
        self.wait(text, |screen| screen.contents().contains(text).then_some(()));
    }

    pub(crate) fn sees_no_more(&self, text: &str) {
        self.wait(&format!("no more {text}"), |screen| (!screen.contents().contains(text)).then_some(()));
    }

    /// Waits until this ask is in focus and its allow key counts: that key is bold then.
    pub(crate) fn can_allow(&self, handle: &str) {
        let title = format!("─ {handle} ");
        self.wait(&format!("an allow of {handle}"), |screen| {
            let focused = rows(screen).any(|row| row.starts_with(&title));
            (focused && is_bold(screen, " y allow once", 1)?).then_some(())
        });
    }

    /// Waits until an allow of the ask in focus does not count any more.
    pub(crate) fn cannot_allow(&self) {
        self.wait("no allow", |screen| (!is_bold(screen, " y allow once", 1)?).then_some(()));
    }

    pub(crate) fn focuses(&self, handle: &str) {
        self.sees(&format!("─ {handle} "));
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        // The screen first: what is drawn after the resize must find it.
        let mut output = self.output.0.lock().unwrap();
        output.parser.screen_mut().set_size(NonZero::new(rows).unwrap(), NonZero::new(columns).unwrap());
        drop(output);
        self.master.resize(size(columns, rows)).unwrap();
    }

    pub(crate) fn screen(&self) -> String {
        self.output.0.lock().unwrap().parser.screen().contents()
    }

    pub(crate) fn with_screen<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.output.0.lock().unwrap().parser.screen())
    }

    /// Everything that was ever written.
    pub(crate) fn raw(&self) -> String {
        String::from_utf8_lossy(&self.output.0.lock().unwrap().raw).into_owned()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    /// Waits until the program has ended and everything that it wrote was read.
    pub(crate) fn ends(&mut self) -> ExitStatus {
        let status = crate::world::until("the program to end", || self.child.try_wait().unwrap());
        let (lock, changed) = &*self.output;
        let mut output = lock.lock().unwrap();
        let deadline = Instant::now() + PATIENCE;
        while !output.ended && Instant::now() < deadline {
            output = changed.wait_timeout(output, PATIENCE).unwrap().0;
        }
        status
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn rows(screen: &vt100::Screen) -> impl Iterator<Item = String> {
    screen.rows(0, screen.size().1.get())
}

/// Whether that column of the row that begins so is bold; none without such a row.
pub(crate) fn is_bold(screen: &vt100::Screen, begins: &str, column: u16) -> Option<bool> {
    let row = rows(screen).position(|row| row.starts_with(begins))?;
    Some(screen.cell(u16::try_from(row).ok()?, column)?.bold())
}

/// The child of a process that runs this program.
pub(crate) fn child_of(parent: u32, program: &str) -> u32 {
    crate::world::until("the program to run", || {
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
        children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(|pid: &u32| {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            command.split(|byte| *byte == 0).next() == Some(program.as_bytes())
        })
    })
}

pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}
