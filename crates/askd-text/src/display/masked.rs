//! Actions for surfaces that are not on this machine, and for logs: secrets covered.

use super::{Action, DisplayField, display, is_diff, main_text};
use crate::mask::{KeyBlock, mask, mask_line};
use crate::safe::safe;
use crate::summary::cut;

/// [`display`] with every secret of a known shape covered (see [`mask`]). A last field, `masked`, says how many.
pub fn display_masked(action: &Action<'_>) -> Vec<DisplayField> {
    let mut fields = display(action);
    let mut count = 0;
    for field in &mut fields {
        // What is shown a second time is not counted a second time.
        let is_again = matches!(field.label.as_str(), "segments" | "warning");
        let is_diff = is_diff(&field.label);
        let mut block = KeyBlock::default();
        let label = mask(&field.label);
        let mut found = label.count;
        field.label = label.text;
        for line in &mut field.lines {
            // The sign of a diff is no part of what stands behind it.
            let sign = usize::from(is_diff && line.starts_with(['+', '-', ' ']));
            let mut masked = line[..sign].to_owned();
            found += mask_line(&line[sign..], &mut block, &mut masked);
            *line = masked;
        }
        count += if is_again { 0 } else { found };
    }
    if count > 0 {
        let what = if count == 1 { "text that looks like a secret" } else { "texts that look like secrets" };
        fields.push(DisplayField {
            label: "masked".to_owned(),
            lines: vec![format!("{count} {what}; to be seen where the agent runs")],
            marked: false,
            complete: true,
        });
    }
    fields
}

/// [`crate::summary`] with secrets covered before it is cut, so that no part of one is left.
pub fn summary_masked(action: &Action<'_>, columns: usize) -> String {
    let tool = safe(action.tool).text;
    let line = match main_text(action) {
        Some(main) => format!("{tool}: {}", safe(&main).text),
        None => tool,
    };
    cut(&mask(&line).text, columns)
}
