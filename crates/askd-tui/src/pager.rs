//! Which part of something longer than the screen is on it.

use std::ops::Range;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pager {
    top: usize,
    /// As it was drawn last.
    rows: usize,
    height: usize,
}

impl Pager {
    /// The rows to draw.
    pub(crate) fn fit(&mut self, rows: usize, height: usize) -> Range<usize> {
        (self.rows, self.height) = (rows, height);
        self.top = self.top.min(self.last_top());
        self.top..(self.top + height).min(rows)
    }

    fn last_top(self) -> usize {
        self.rows.saturating_sub(self.height)
    }

    #[cfg(test)]
    fn has_more(self) -> bool {
        self.rows > self.height
    }

    pub(crate) fn is_at_end(self) -> bool {
        self.top >= self.last_top()
    }

    /// Whether there was anything to move to.
    pub(crate) fn next(&mut self) -> bool {
        let top = (self.top + self.height.max(1)).min(self.last_top());
        std::mem::replace(&mut self.top, top) != top
    }

    pub(crate) fn previous(&mut self) -> bool {
        let top = self.top.saturating_sub(self.height.max(1));
        std::mem::replace(&mut self.top, top) != top
    }

    /// `rows 13 to 24 of 80`
    pub(crate) fn place(self) -> String {
        let end = (self.top + self.height).min(self.rows);
        format!("rows {} to {end} of {}", self.top + 1, self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_without_a_gap_and_the_last_one_is_full() {
        let mut pager = Pager::default();
        assert_eq!(pager.fit(25, 10), 0..10);
        assert!(pager.has_more() && !pager.is_at_end());
        assert!(pager.next());
        assert_eq!(pager.fit(25, 10), 10..20);
        assert_eq!(pager.place(), "rows 11 to 20 of 25");
        assert!(pager.next());
        assert_eq!(pager.fit(25, 10), 15..25);
        assert!(pager.is_at_end() && !pager.next());
        assert!(pager.previous());
        assert_eq!(pager.fit(25, 10), 5..15);
        assert_eq!(pager.fit(8, 10), 0..8);
        assert!(!pager.has_more() && pager.is_at_end());
    }
}
