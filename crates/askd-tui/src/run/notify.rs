//! The bell, notifications and the title of the window, as escape sequences.

/// A notification that the terminal shows, besides the bell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Notify {
    #[default]
    Off,
    /// OSC 9 (iTerm2, Windows Terminal, ConEmu, kitty, WezTerm, Ghostty).
    Osc9,
    /// OSC 777 (urxvt, foot, WezTerm, Ghostty).
    Osc777,
}

/// Longest text of a notification, in characters.
const MOST: usize = 160;

/// What goes to the terminal when asks came. `in_tmux`: wrapped, so that tmux passes it on.
pub(super) fn alert(text: &str, bell: bool, notify: Notify, in_tmux: bool) -> String {
    let mut out = String::new();
    if bell {
        out.push('\x07');
    }
    let text = inert(text);
    let sequence = match notify {
        Notify::Off => return out,
        Notify::Osc9 => format!("\x1b]9;askd: {text}\x07"),
        // A semicolon would end the part of the sequence that it is in.
        Notify::Osc777 => format!("\x1b]777;notify;askd;{}\x07", text.replace(';', ",")),
    };
    out.push_str(&if in_tmux { passed_through(&sequence) } else { sequence });
    out
}

/// The title of the window; tmux takes it for the pane.
pub(super) fn title(text: &str) -> String {
    format!("\x1b]2;{}\x07", inert(text))
}

/// The text is safe already; this is the last place to see to it that it cannot end the sequence.
fn inert(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MOST).collect()
}

fn passed_through(sequence: &str) -> String {
    format!("\x1bPtmux;{}\x1b\\", sequence.replace('\x1b', "\x1b\x1b"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s4_no_text_ends_the_sequence_it_is_in() {
        let hostile = "a\x07b\x1b\\c\u{9c}d;e";
        assert_eq!(alert(hostile, true, Notify::Osc9, false), "\x07\x1b]9;askd: ab\\cd;e\x07");
        assert_eq!(alert(hostile, false, Notify::Osc777, false), "\x1b]777;notify;askd;ab\\cd,e\x07");
        assert_eq!(title(hostile), "\x1b]2;ab\\cd;e\x07");
        assert_eq!(alert(&"x".repeat(9999), false, Notify::Osc9, false).len(), MOST + 11);
    }

    #[test]
    fn tmux_passes_a_notification_on_and_the_bell_by_itself() {
        assert_eq!(alert("hi", true, Notify::Osc9, true), "\x07\x1bPtmux;\x1b\x1b]9;askd: hi\x07\x1b\\");
        assert_eq!(alert("hi", true, Notify::Off, true), "\x07");
        assert_eq!(alert("hi", false, Notify::Off, true), "");
    }
}
