//! The terminal: taken, drawn on, and given back as it was, whatever happens.

use std::io::{self, IsTerminal, Stdout, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{execute, queue};
use ratatui::layout::{Position, Rect};

/// Keeps the window's title for later, and brings it back; terminals that know no such thing ignore it.
const PUSH_TITLE: &str = "\x1b[22;2t";
const POP_TITLE: &str = "\x1b[23;2t";

/// Reports of the mouse, in all their forms: a program that died may have left them on, and a click is no key.
const MOUSE_OFF: &str =
    "\x1b[?9l\x1b[?1000l\x1b[?1001l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l";

type PanicHook = Box<dyn Fn(&std::panic::PanicHookInfo<'_>) + Sync + Send + 'static>;

/// The screen while the queue has it.
pub(super) struct Screen {
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
    /// Whether the terminal is ours now; the panic hook looks at it.
    taken: Arc<AtomicBool>,
}

/// Whether there is a terminal on both sides.
pub(super) fn is_there() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

impl Screen {
    pub(super) fn take() -> io::Result<Self> {
        let taken = Arc::new(AtomicBool::new(false));
        let mut screen =
            Self { terminal: Terminal::new(CrosstermBackend::new(io::stdout()))?, taken: Arc::clone(&taken) };
        restore_on_panic(taken);
        screen.enter()?;
        Ok(screen)
    }

    /// Takes the terminal, also again after it was given back.
    pub(super) fn enter(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        self.taken.store(true, Ordering::SeqCst);
        let mut stdout = io::stdout();
        write!(stdout, "{PUSH_TITLE}{MOUSE_OFF}")?;
        execute!(stdout, EnterAlternateScreen, EnableBracketedPaste)?;
        self.clear()
    }

    /// Empties the screen, so that everything is drawn anew. Asks the terminal nothing: a reply would come as input.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from((Position::ORIGIN, size)))
    }

    /// Whether the terminal is ours now.
    pub(super) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::SeqCst)
    }

    pub(super) fn leave(&self) {
        if self.taken.swap(false, Ordering::SeqCst) {
            give_back();
        }
    }

    /// Writes what is not part of a frame.
    pub(super) fn write(&mut self, text: &str) -> io::Result<()> {
        let backend = self.terminal.backend_mut();
        backend.write_all(text.as_bytes())?;
        Write::flush(backend)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A terminal that is gone cannot be given back; there is nobody to tell.
fn give_back() {
    let mut stdout = io::stdout();
    let _ = queue!(stdout, DisableBracketedPaste, LeaveAlternateScreen, Show);
    let _ = write!(stdout, "{POP_TITLE}");
    let _ = stdout.flush();
    let _ = disable_raw_mode();
}

/// A panic is told on a terminal that can be read; one in another thread ends the program too.
fn restore_on_panic(taken: Arc<AtomicBool>) {
    let before: PanicHook = std::panic::take_hook();
    let main = std::thread::current().id();
    std::panic::set_hook(Box::new(move |info| {
        let was_taken = taken.swap(false, Ordering::SeqCst);
        if was_taken {
            give_back();
        }
        before(info);
        if was_taken && std::thread::current().id() != main {
            std::process::exit(101);
        }
    }));
}
