//! Turns foreign text into text that can be shown: it marks what cannot be seen and never drops, cuts or guesses
//! silently, and it does no I/O and knows no surface. Read [`SafeText`] and [`DisplayField`] first.
//!
//! Nothing else in askd renders text that an agent wrote. Everything starts at [`safe`]: it names each character
//! that a person could not see, or that would act on the screen instead of being shown on it. [`display`] applies
//! that to a whole action, [`summary`] to one line of it; [`display_masked`] and [`summary_masked`] cover secrets
//! too, for surfaces elsewhere and for logs. [`Layout`] makes rows of it for a screen and [`messages`] texts for a
//! chat; neither cuts, and [`Reached`] knows when a person has had all of it before them.
//!
//! Every mark begins with `\u{`, and text that only looks like a mark is marked itself, so a mark can be trusted:
//!
//! | mark | stands for |
//! |---|---|
//! | `\u{202e}` | one character, by its code point |
//! | `\u{40 × 202e}` | the same character 40 times |
//! | `\u{37 spaces}`, `\u{20 tabs}`, `\u{9 newlines}` | a long run of them |
//! | `\u{12 empty lines}` | that many empty lines (a line of its own) |
//! | `\u{36 masked}` | a secret of 36 characters |
//! | `⇥` | a tab (a real `⇥` is `\u{21e5}`) |
//! | `↵` | a line break, where only one line is shown (a real `↵` is `\u{21b5}`) |

mod chars;
mod chat;
mod diff;
mod display;
mod duration;
mod layout;
mod lookalike;
mod mask;
mod outline;
mod safe;
mod shell;
mod summary;
mod warn;

pub use chat::{fits, messages};
pub use display::{Action, DisplayField, display, display_masked, is_diff, summary_masked};
pub use duration::{ago, duration};
pub use layout::{Excerpt, Layout, Page, Reached, Row, pages};
pub use mask::{Masked, mask};
pub use safe::{SafeLines, SafeText, safe, safe_lines};
pub use shell::{NotSplit, Segment, segments};
pub use summary::{cut, cut_with, head, summary};
