//! How much a rules file may ask for, and how much the two paths see.

/// How many rules one file may have.
pub const MAX_RULES: usize = 4096;
/// How many items (patterns, numbers) the rules of a file may have together.
pub const MAX_ITEMS: usize = 16_384;
/// How many bytes all patterns of a file, as they are written, may have together.
pub const MAX_PATTERN_BYTES: usize = 256 * 1024;
/// How many items of one rule may be placed independently of each other.
pub(super) const MAX_CHAINS: usize = 24;

/// Literals as they are, literals in either case, and up to six groups of
/// regular expressions, which in one automaton would multiply its states. The
/// states of a flow's two directions fill one cache line.
pub(super) const TABLES: usize = 8;
/// How many of the tables are for regular expressions.
pub(super) const EXPRESSION_TABLES: usize = TABLES - 2;
