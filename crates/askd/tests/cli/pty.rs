//! askd in a pseudo-terminal, as a person has it.

use std::io::{Read, Write};
use std::num::NonZero;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::world::{PATIENCE, World, until};

const SIZE: PtySize = PtySize { rows: 30, cols: 100, pixel_width: 0, pixel_height: 0 };

/// What came out of it.
struct Output {
    screen: vt100::Parser,
    raw: Vec<u8>,
}

pub(crate) struct Pty {
    child: Box<dyn Child + Send + Sync>,
    keyboard: Box<dyn Write + Send>,
    output: Arc<(Mutex<Output>, Condvar)>,
    _master: Box<dyn MasterPty + Send>,
}

impl Pty {
    pub(crate) fn start(world: &World, args: &[&str]) -> Self {
        Self::start_with(world, args, "xterm-256color", "")
    }

    /// `typed`: what waits in the terminal before the program runs.
    pub(crate) fn start_with(world: &World, args: &[&str], term: &str, typed: &str) -> Self {
        Self::start_in(world, env!("CARGO_BIN_EXE_askd"), args, term, typed)
    }

    /// Another program.
    pub(crate) fn start_program(world: &World, program: &str, args: &[&str]) -> Self {
        Self::start_in(world, program, args, "dumb", "")
    }

    fn start_in(world: &World, program: &str, args: &[&str], term: &str, typed: &str) -> Self {
        let pair = native_pty_system().openpty(SIZE).unwrap();
        let mut keyboard = pair.master.take_writer().unwrap();
        keyboard.write_all(typed.as_bytes()).unwrap();
        let mut builder = CommandBuilder::new(program);
        builder.args(args);
        builder.env_clear();
        for (name, value) in [
            ("PATH", "/usr/bin:/bin"),
            ("HOME", world.home().to_str().unwrap()),
            ("TMPDIR", world.home().to_str().unwrap()),
            ("ASKD_DIR", world.askd_dir().to_str().unwrap()),
            ("TERM", term),
            ("LC_ALL", "C.UTF-8"),
        ] {
            builder.env(name, value);
        }
        builder.cwd(world.home());
        let child = pair.slave.spawn_command(builder).unwrap();
        drop(pair.slave);
        let (rows, columns) = (NonZero::new(SIZE.rows).unwrap(), NonZero::new(SIZE.cols).unwrap());
        let screen = vt100::Parser::new(rows, columns, 0);
        let output = Arc::new((Mutex::new(Output { screen, raw: Vec::new() }), Condvar::new()));
        let shown = Arc::clone(&output);
        let mut reader = pair.master.try_clone_reader().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 16 * 1024];
            loop {
                let count = reader.read(&mut bytes).unwrap_or(0);
                let mut output = shown.0.lock().unwrap();
                output.screen.process(&bytes[..count]);
                output.raw.extend_from_slice(&bytes[..count]);
                shown.1.notify_all();
                if count == 0 {
                    break;
                }
            }
        });
        Self { child, keyboard, output, _master: pair.master }
    }

    pub(crate) fn keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Waits until the screen shows this; gives all of it.
    pub(crate) fn sees(&self, text: &str) -> String {
        let give_up = Instant::now() + PATIENCE;
        let (lock, changed) = &*self.output;
        let mut output = lock.lock().unwrap();
        loop {
            let contents = output.screen.screen().contents();
            if contents.contains(text) {
                return contents;
            }
            let left = give_up.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited in vain for {text}:\n{contents}");
            output = changed.wait_timeout(output, left).unwrap().0;
        }
    }

    /// Whether the screen shows this now.
    pub(crate) fn shows(&self, text: &str) -> bool {
        self.output.0.lock().unwrap().screen.screen().contents().contains(text)
    }

    /// Waits for a line that begins with this; gives it.
    pub(crate) fn sees_line(&self, start: &str) -> String {
        let give_up = Instant::now() + PATIENCE;
        let (lock, changed) = &*self.output;
        let mut output = lock.lock().unwrap();
        loop {
            let contents = output.screen.screen().contents();
            let found = contents.lines().find(|line| line.starts_with(start) && line.len() > start.len());
            if let Some(line) = found {
                return line.trim_end().to_owned();
            }
            let left = give_up.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited in vain for {start}:\n{contents}");
            output = changed.wait_timeout(output, left).unwrap().0;
        }
    }

    /// Presses a key until something has happened: an allow counts only a while after the ask was drawn, and each key
    /// that did not count puts that off.
    pub(crate) fn presses_until<T>(&mut self, key: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let mut next = Instant::now();
        until("a key to count", || {
            if Instant::now() >= next {
                self.keys(key);
                next = Instant::now() + Duration::from_secs(2);
            }
            look()
        })
    }

    /// Every byte so far.
    pub(crate) fn raw(&self) -> Vec<u8> {
        self.output.0.lock().unwrap().raw.clone()
    }

    /// Whether the program has the whole screen.
    pub(crate) fn is_full_screen(&self) -> bool {
        self.output.0.lock().unwrap().screen.screen().alternate_screen()
    }

    /// Waits for its end: the exit status.
    pub(crate) fn end(mut self) -> u32 {
        until("its end", || self.child.try_wait().unwrap()).exit_code()
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
