//! Input as the queue takes it.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// One input. Whatever has no meaning here is [`Key::Other`]: it answers nothing, and it is noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Ctrl(char),
    Enter,
    Esc,
    Tab,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    Home,
    End,
    PageUp,
    PageDown,
    /// Pasted text: it can fill a line, it never answers.
    Paste(String),
    /// Any other key, and what a terminal says is a repetition of a key that is held down.
    Other,
}

impl Key {
    /// From an event of crossterm; none for what is no input (resize, focus, a key let go).
    pub fn from_event(event: &Event) -> Option<Self> {
        match event {
            Event::Key(key) => Self::from_key(key),
            Event::Paste(text) => Some(Self::Paste(text.clone())),
            _ => None,
        }
    }

    fn from_key(key: &KeyEvent) -> Option<Self> {
        match key.kind {
            KeyEventKind::Release => return None,
            // A key that is held began before whatever it repeats on.
            KeyEventKind::Repeat => return Some(Self::Other),
            KeyEventKind::Press => {}
        }
        let with = key.modifiers - KeyModifiers::SHIFT;
        if with == KeyModifiers::CONTROL {
            return Some(match key.code {
                KeyCode::Char(c) => Self::Ctrl(c.to_ascii_lowercase()),
                _ => Self::Other,
            });
        }
        if !with.is_empty() {
            return Some(Self::Other);
        }
        Some(match key.code {
            KeyCode::Char(c) => Self::Char(c),
            KeyCode::Enter => Self::Enter,
            KeyCode::Esc => Self::Esc,
            KeyCode::Tab => Self::Tab,
            KeyCode::Backspace => Self::Backspace,
            KeyCode::Delete => Self::Delete,
            KeyCode::Left => Self::Left,
            KeyCode::Right => Self::Right,
            KeyCode::Up => Self::Up,
            KeyCode::Down => Self::Down,
            KeyCode::Home => Self::Home,
            KeyCode::End => Self::End,
            KeyCode::PageUp => Self::PageUp,
            KeyCode::PageDown => Self::PageDown,
            _ => Self::Other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s4_a_modified_a_held_and_a_released_key_is_no_plain_one() {
        let event = |modifiers, kind| {
            Key::from_event(&Event::Key(KeyEvent::new_with_kind(KeyCode::Char('y'), modifiers, kind)))
        };
        assert_eq!(event(KeyModifiers::NONE, KeyEventKind::Press), Some(Key::Char('y')));
        assert_eq!(event(KeyModifiers::ALT, KeyEventKind::Press), Some(Key::Other));
        assert_eq!(event(KeyModifiers::SUPER, KeyEventKind::Press), Some(Key::Other));
        assert_eq!(event(KeyModifiers::CONTROL, KeyEventKind::Press), Some(Key::Ctrl('y')));
        assert_eq!(event(KeyModifiers::NONE, KeyEventKind::Repeat), Some(Key::Other));
        assert_eq!(event(KeyModifiers::NONE, KeyEventKind::Release), None);
        assert_eq!(Key::from_event(&Event::Resize(1, 1)), None);
    }
}
