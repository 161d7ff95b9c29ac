package translate

// Error is what cannot be translated: the client gets a 400 that says so.
type Error struct{ Param, Message string }

// Error returns the message that the client sees.
func (e *Error) Error() string { return e.Message }
