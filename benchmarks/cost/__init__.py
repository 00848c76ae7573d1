"""What reliability costs, on both lines; `make cost` measures it and writes the page and its picture."""
