//! How much a rules file may ask for, and how much the two paths see.

/// How many rules one file may have.
pub const MAX_RULES: usize = 4096;
/// How many bytes all patterns, as they are written, and all written gates of
/// a file may have together.
pub const MAX_PATTERN_BYTES: usize = 64 * 1024;
/// The shortest literal, as a rule or as a gate.
pub const MIN_LITERAL_BYTES: usize = 2;
/// A literal that the window cuts off counts from this many bytes on.
pub const MIN_PARTIAL_BYTES: usize = 4;

/// Literals as they are, literals in either case, and up to six groups of
/// regular expressions, which in one automaton would multiply its states. The
/// states of a flow's two directions fill one cache line.
pub(super) const TABLES: usize = 8;
/// How many of the tables are for regular expressions.
pub(super) const EXPRESSION_TABLES: usize = TABLES - 2;
