# SPDX-License-Identifier: ISC
# Cannot be done in a transaction; the lock of the migration is held all the same.
class IndexBooks < ActiveRecord::Migration[6.1]
  disable_ddl_transaction!

  def change
    add_index :books, :number, algorithm: :concurrently
    add_column :books, :title, :text
  end
end
