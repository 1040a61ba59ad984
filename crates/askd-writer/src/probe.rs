//! Named points of a batch at which a process may die. The simulation and the crash tests die at each of them; in
//! ordinary use nothing listens.

/// The points, in the order in which a batch passes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// Commands were taken from the queue.
    Drained,
    /// Changes are applied in memory, nothing is written.
    Applied,
    /// The journal has the batch, nobody was told.
    Committed,
    /// Replies and events were released.
    Released,
}

impl Point {
    pub const ALL: [Self; 4] = [Self::Drained, Self::Applied, Self::Committed, Self::Released];

    pub fn name(self) -> &'static str {
        match self {
            Self::Drained => "drained",
            Self::Applied => "applied",
            Self::Committed => "committed",
            Self::Released => "released",
        }
    }
}

/// Asked at each point of a batch that writes something; `true` means that the process dies here.
pub trait Probe: Send {
    fn dies_at(&mut self, point: Point) -> bool;
}

/// Never dies.
impl Probe for () {
    fn dies_at(&mut self, _: Point) -> bool {
        false
    }
}
