//! The permission tool over MCP: Claude Code calls it for every ask that a person would answer, and gets the outcome as
//! the tool's result. It decides nothing, and it never turns a fault into a decision.
