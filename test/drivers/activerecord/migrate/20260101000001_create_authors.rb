# SPDX-License-Identifier: ISC
# The tables; and one of tenants, with a policy that reads a parameter of the session.
class CreateAuthors < ActiveRecord::Migration[6.1]
  def change
    create_table(:authors) do |t|
      t.string :name, null: false, index: { unique: true }
      t.timestamps
    end
    create_table(:books) do |t|
      t.references :author, null: false, foreign_key: true
      t.integer :number
      t.jsonb :details, default: {}
    end
    create_table(:notes) { |t| t.string :tenant, null: false }
    reversible do |direction|
      direction.up do
        execute 'ALTER TABLE notes ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY'
        execute "CREATE POLICY own ON notes USING (tenant = current_setting('app.tenant', true))"
      end
    end
  end
end
