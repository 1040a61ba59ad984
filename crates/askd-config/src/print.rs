//! The config as texts: the commented default file and the JSON Schema.

use std::fmt::Write as _;

use crate::keys::KEYS;
use crate::settings::Settings;

/// How wide a comment may get, in characters.
const COMMENT_WIDTH: usize = 100;

/// The commented default `config.toml`: every key with its default, commented out. Read as it is, it sets nothing.
pub fn default_file() -> String {
    let defaults = Settings::default();
    let mut out = String::from(
        "# The settings of askd. Every key stands here with its default; take the # away to set another value.\n\
         # Looser values than the defaults wait until a person accepts them: `askd config accept`.\n",
    );
    let mut last = "";
    for key in KEYS {
        let (section, name) = key.split();
        // Writing to a String cannot fail.
        if section != last {
            let _ = write!(out, "\n[{section}]\n");
            last = section;
        } else {
            out.push('\n');
        }
        comment(&mut out, key.meaning);
        comment(&mut out, &format!("Allowed: {}. Or set {}.", key.allowed(), key.env()));
        let _ = writeln!(out, "#{name} = {}", key.literal(&defaults));
    }
    out
}

fn comment(out: &mut String, text: &str) {
    let mut width = COMMENT_WIDTH;
    for word in text.split(' ') {
        if width + word.len() >= COMMENT_WIDTH {
            if !out.ends_with('\n') {
                out.push('\n');
            }
            out.push('#');
            width = 1;
        }
        out.push(' ');
        out.push_str(word);
        width += word.len() + 1;
    }
    out.push('\n');
}

/// The JSON Schema of the config file, indented, with a line break at the end.
pub fn schema() -> String {
    let mut schema = schemars::schema_for!(Settings).to_value();
    // Their order would depend on what else is built with serde_json.
    schema.sort_all_objects();
    format!("{schema:#}\n")
}
