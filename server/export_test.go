package server

// Break makes the verbs listener fail.
func (s *Server) Break() { _ = s.verbs.Close() }
