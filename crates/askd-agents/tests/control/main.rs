//! The machine of the control protocol, driven by lines: what passes, what is asked, who wins, what is never written.

mod gone;
mod life;
mod lines;
mod passes;
mod races;
mod replay;
mod shells;
mod stops;
mod support;
