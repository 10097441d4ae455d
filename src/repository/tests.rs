//! Reading repositories that the tests make.
