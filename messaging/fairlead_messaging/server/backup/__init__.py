"""A backup: every row of a store in one file, whatever the kind of store, so that any kind can be made of it again.

    rows of one snapshot ─(encoding.encode)→ bytes ─(decoding.Decoder)→ header, batches of rows, end

    frame      magic, then frames: kind (1 byte), length (4), CRC-32 of kind and content (4), content
    encoding   the writing side: header, blocks of rows, end
    sources    what is read from beside a file: pieces, and a source that is copied meanwhile
    decoding   the reading side: any damage, any missing piece is an error, never fewer rows

A file is whole when it ends with its end frame: that counts the rows and has the SHA-256 of all before it. Keys ascend
through the file, so nothing is there twice. Nothing here reads or writes a file; ``io.stores.restored_store`` does.
"""
