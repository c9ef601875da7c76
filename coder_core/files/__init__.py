"""Files that survive kills and reveal damage: atomic writes, sealed folders, checksummed lines, arrays, matrices."""
