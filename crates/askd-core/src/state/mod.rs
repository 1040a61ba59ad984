pub struct State;
pub struct AskState;
pub struct Handled;
