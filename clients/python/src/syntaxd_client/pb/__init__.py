"""Generated messages and stubs of the contract, for what the helper does not cover."""
